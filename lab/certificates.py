# SPDX-License-Identifier: Apache-2.0
"""The cluster's certificate authority, one certificate per client, and kubeconfigs, by the openssl command.

Made once per lab in a folder that appears by rename, so an interrupted `up` starts them anew. Kubeconfigs
carry their keys inside: each is one file of mode 0600 that can be given away alone.
"""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.addresses import SERVICE_DOMAIN
from lab.commands import run
from lab.state import Lab

_DAYS = "825"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Identity:
    """Whom a certificate names. `alternative_names`: openssl form, such as `DNS:a,IP:10.0.0.1`."""

    subject: str
    alternative_names: str


def identities(lab: Lab) -> dict[str, Identity]:
    """Every certificate of the lab by file name."""
    at = lab.addresses
    service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{SERVICE_DOMAIN}"]
    names = ",".join(f"DNS:{name}" for name in ["localhost", *service])
    wanted = {
        "apiserver": Identity("/CN=kube-apiserver", f"{names},IP:127.0.0.1,IP:{at.api_service_ip},IP:{at.host_ip}"),
        "admin": Identity("/O=system:masters/CN=admin", "DNS:admin"),
        "controller-manager": Identity("/CN=system:kube-controller-manager", "DNS:controller-manager"),
        "scheduler": Identity("/CN=system:kube-scheduler", "DNS:scheduler"),
        "proxy": Identity("/CN=system:kube-proxy", "DNS:proxy"),
        "dns": Identity("/CN=system:coredns", "DNS:dns"),
        "router": Identity("/CN=system:kube-router", "DNS:router"),
    }
    for node in lab.nodes:
        wanted[node.name] = Identity(f"/O=system:nodes/CN=system:node:{node.name}", f"DNS:{node.name},IP:{at.node_ip(node.index)}")
    return wanted


def ensure(lab: Lab) -> None:
    """Make all certificates and kubeconfigs unless they are there."""
    if not lab.certificates.exists():
        _make(lab)
    if not lab.kubeconfig.exists():
        shutil.copy(lab.certificates / "admin.kubeconfig", lab.kubeconfig)


def render_kubeconfig(lab: Lab, folder: Path, name: str) -> str:
    """Kubeconfig (JSON, which is YAML) of the identity `name` with its files inlined."""

    def inlined(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    context = f"ascend-pd-{lab.name}"
    cluster = {"server": lab.addresses.api_url, "certificate-authority-data": inlined("ca.crt")}
    user = {"client-certificate-data": inlined(f"{name}.crt"), "client-key-data": inlined(f"{name}.key")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": name}}],
    }
    return json.dumps(content, indent=1)


def _make(lab: Lab) -> None:
    final = lab.certificates
    folder = final.with_name("pki.tmp")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    authority = ("-days", _DAYS, "-subj", "/CN=lab-ca", "-keyout", folder / "ca.key", "-out", folder / "ca.crt")
    run("openssl", "req", "-x509", *_NEW_KEY, *authority)
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / "sa.key")
    run("openssl", "ec", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub")
    for serial, (name, identity) in enumerate(identities(lab).items(), start=100):
        _sign(folder, name, identity, serial)
        kubeconfig = folder / f"{name}.kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(render_kubeconfig(lab, folder, name))
    folder.rename(final)


def _sign(folder: Path, name: str, identity: Identity, serial: int) -> None:
    extensions, request = folder / f"{name}.ext", folder / f"{name}.csr"
    extensions.write_text(f"subjectAltName={identity.alternative_names}\nextendedKeyUsage=serverAuth,clientAuth\n")
    run("openssl", "req", *_NEW_KEY, "-subj", identity.subject, "-keyout", folder / f"{name}.key", "-out", request)
    signer = ("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-set_serial", str(serial), "-days", _DAYS)
    run("openssl", "x509", "-req", "-in", request, *signer, "-extfile", extensions, "-out", folder / f"{name}.crt")
    extensions.unlink()
    request.unlink()
