# SPDX-License-Identifier: Apache-2.0
"""A certificate revocation list as a resource: pulumi-tls signs certificates but makes no list of revoked ones.

Invariants: the list is checked (parse, signature, number grows, serials present) before it becomes an
output; a revocation cannot be taken back; a preview is empty unless the set of revoked certificates changed or the list runs out soon; the
authority's key is a secret input and stands encrypted in the state.
"""

from __future__ import annotations

from typing import Any

from pulumi import Input, Output, ResourceOptions
from pulumi.dynamic import CheckResult, CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

_OUTPUTS = ("crl_pem", "crl_der_base64", "number", "next_update", "serials", "entries")


class CrlProvider(ResourceProvider):
    """Signs lists. Its logic lives in `crl_signing`, imported when used, so that state carries no code."""

    serialize_as_secret_always = False

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        """Accept the inputs; their ranges are the stack model's."""
        return CheckResult(news, [])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Sign list number 1."""
        from components.crl_signing import sign

        return CreateResult(f"crl-{props['authority']}", {**props, **sign(props, number=1)})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Compare what the list says with what it should say, and its age with the renewal time."""
        from components.crl_signing import changes, refuse_return

        refuse_return(olds, news)
        replaces = ["ca_cert_pem"] if olds.get("ca_cert_pem") != news.get("ca_cert_pem") else []
        return DiffResult(
            changes=bool(replaces) or changes(olds, news), replaces=replaces, stables=["authority"], delete_before_replace=False
        )

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Sign the next list."""
        from components.crl_signing import sign

        return UpdateResult({**news, **sign(news, number=int(olds["number"]) + 1, before=olds)})


class Crl(Resource, module="ascend-pd", name="Crl"):
    """The revocation list of one authority.

    Outputs: `crl_pem`; `crl_der_base64`; `number`, grows by one with each list; `next_update`, ISO 8601;
    `serials`, hexadecimal, sorted; `entries`, the same with the times of revocation and of expiry.
    """

    crl_pem: Output[str]
    crl_der_base64: Output[str]
    number: Output[int]
    next_update: Output[str]
    serials: Output[list[str]]
    entries: Output[list[dict[str, str]]]

    def __init__(
        self,
        name: str,
        *,
        authority: str,
        ca_cert_pem: Input[str],
        ca_key_pem: Input[str],
        revoked_cert_pems: list[Input[str]],
        current_cert_pems: list[Input[str]],
        valid_hours: int,
        renew_before_hours: int,
        opts: ResourceOptions | None = None,
    ) -> None:
        """Declare the list. Certificates are given whole, since their serials exceed a number's precision; none in use may be on it."""
        props: dict[str, Any] = {
            "authority": authority,
            "ca_cert_pem": ca_cert_pem,
            "ca_key_pem": Output.secret(ca_key_pem),
            "revoked_cert_pems": revoked_cert_pems,
            "current_cert_pems": current_cert_pems,
            "valid_hours": valid_hours,
            "renew_before_hours": renew_before_hours,
        }
        super().__init__(CrlProvider(), name, props | dict.fromkeys(_OUTPUTS), opts)
