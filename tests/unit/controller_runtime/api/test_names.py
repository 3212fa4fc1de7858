# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.api.labels import SERVICE_INDEX, SET_NAME
from controller_runtime.api.names import ServicePlace, decimal, service_place


@pytest.mark.parametrize(
    "text, number",
    [
        ("0", 0),
        ("63", 63),
        ("-1", -1),
        ("01", None),
        ("+1", None),
        ("", None),
        ("-", None),
        ("abc", None),
        ("1.0", None),
        ("²", None),
        (None, None),
    ],
)
def test_only_plain_decimal_numbers_are_indices(text: str | None, number: int | None) -> None:
    assert decimal(text) == number


@pytest.mark.parametrize(
    "name, place",
    [
        pytest.param("my-svc-3", ServicePlace(3, "my-svc"), id="V26-number-at-the-end"),
        pytest.param("solo", ServicePlace(None, None), id="V26-no-dash"),
        pytest.param("simple-infer", ServicePlace(None, None), id="V22-word-at-the-end"),
        ("my-service", ServicePlace(None, None)),
        ("a-01", ServicePlace(None, None)),
        ("-1", ServicePlace(None, None)),
    ],
)
def test_a_lone_service_has_the_number_its_name_ends_in_but_no_port_offset(name: str, place: ServicePlace) -> None:
    assert service_place(name, {}) == place


def test_a_service_of_a_set_has_the_place_its_set_gave_it() -> None:
    labels = {SET_NAME: "a-b", SERVICE_INDEX: "2"}

    assert service_place("a-b-2", labels) == ServicePlace(2, "a-b", 2)


def test_an_index_label_without_a_set_moves_no_node_port() -> None:
    assert service_place("svc-7", {SERVICE_INDEX: "7"}) == ServicePlace(7, "svc", 0)
