# SPDX-License-Identifier: Apache-2.0
"""The table agrees with the go.mod files and with the Python packages that need its plugins."""

from __future__ import annotations

import pytest

from tools.catalogue import CATALOGUE, Binary, select
from tools.errors import ToolsError
from tools.places import CHECKOUT

PINS = {
    "pulumi": "github.com/pulumi/pulumi/pkg/v3 {}",
    "pulumi-language-python": "github.com/pulumi/pulumi/sdk/v3 {}",
    "etcd": "go.etcd.io/etcd/server/v3 v{}",
    "etcdctl": "go.etcd.io/etcd/etcdctl/v3 v{}",
    "etcdutl": "go.etcd.io/etcd/etcdutl/v3 v{}",
    "kube-apiserver": "k8s.io/kubernetes {}",
    "coredns": "github.com/coredns/coredns v{}",
    "kube-router": "github.com/cloudnativelabs/kube-router/v2 v{}",
    "kwok": "sigs.k8s.io/kwok v{}",
    "pulumi-language-yaml": "github.com/pulumi/pulumi-yaml v{}",
}
PACKAGES = {"pulumi-resource-tls": "pulumi-tls", "pulumi-resource-kubernetes": "pulumi-kubernetes"}


def test_no_names_selects_everything_that_is_not_optional_in_build_order() -> None:
    assert select([]) == [row for row in CATALOGUE if not row.optional]


def test_names_are_selected_in_build_order() -> None:
    assert [row.name for row in select(["kwok", "etcd"])] == ["etcd", "kwok"]


def test_optional_row_is_selected_by_name() -> None:
    assert [row.name for row in select(["pulumi-language-yaml"])] == ["pulumi-language-yaml"]


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ToolsError, match=r"no binary is called etc\. Choose from: pulumi, .*etcd"):
        select(["etc", "etcd"])


@pytest.mark.parametrize("row", [row for row in CATALOGUE if row.name in PINS], ids=lambda row: row.name)
def test_version_is_the_one_pinned_in_go_mod(row: Binary) -> None:
    lines = (CHECKOUT / "tools" / "go" / row.family / "go.mod").read_text().splitlines()
    pin = PINS[row.name].format(row.version)
    assert any(line.strip().removeprefix("require ").removesuffix(" // indirect") == pin for line in lines)


@pytest.mark.parametrize("row", [row for row in CATALOGUE if row.plugin], ids=lambda row: row.name)
def test_plugin_has_the_version_of_its_python_package(row: Binary) -> None:
    assert f"\n{PACKAGES[row.name]}=={row.version} " in (CHECKOUT / "requirements" / "dev.lock").read_text()


@pytest.mark.parametrize("row", CATALOGUE, ids=lambda row: row.name)
def test_scripts_of_the_row_are_in_the_checkout_and_executable(row: Binary) -> None:
    family = CHECKOUT / "tools" / "go" / row.family
    assert (family / "go.sum").is_file()
    assert all((family / script).stat().st_mode & 0o111 for script in row.scripts)
