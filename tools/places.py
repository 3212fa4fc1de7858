# SPDX-License-Identifier: Apache-2.0
"""Every folder and file these commands read or write, in one place.

Invariants: binaries and the caches of Go live in the user's cache folder, shared by all checkouts;
what a checkout owns (`.tools`, `.venv`, `.env.sh`) is ignored by git and can be made again; what
must survive (Pulumi state, passphrase) lives in the user's state folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PRODUCT = "ascend-pd"
CHECKOUT = Path(__file__).resolve().parent.parent
DEV_LAB_KUBECONFIG = Path("/var/lib") / PRODUCT / "lab" / "dev" / "kubeconfig"


@dataclass(frozen=True)
class Places:
    """`checkout`: the source tree; `cache` and `state`: the user's folders of this product's tools."""

    checkout: Path
    cache: Path
    state: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str], checkout: Path = CHECKOUT) -> Places:
        """Follow XDG_CACHE_HOME and XDG_STATE_HOME; relative values are ignored, as the XDG rules ask."""
        home = Path(environ.get("HOME") or Path.home())

        def base(variable: str, default: str) -> Path:
            given = Path(environ.get(variable, ""))
            return given if given.is_absolute() else home / default

        return cls(
            checkout=checkout,
            cache=base("XDG_CACHE_HOME", ".cache") / PRODUCT / "tools",
            state=base("XDG_STATE_HOME", ".local/state") / PRODUCT,
        )

    @property
    def go_sources(self) -> Path:
        """One folder with a `go.mod` per family of binaries."""
        return self.checkout / "tools" / "go"

    @property
    def go_mod_cache(self) -> Path:
        return self.cache / "go" / "mod"

    @property
    def go_build_cache(self) -> Path:
        return self.cache / "go" / "build"

    @property
    def logs(self) -> Path:
        """What the Go command printed, one file per binary."""
        return self.cache / "logs"

    @property
    def locks(self) -> Path:
        return self.cache / "locks"

    @property
    def links(self) -> Path:
        return self.checkout / ".tools"

    @property
    def bin(self) -> Path:
        """The folder that `.env.sh` puts first on PATH."""
        return self.links / "bin"

    @property
    def share(self) -> Path:
        """Data files that belong to binaries, such as kwok's stages."""
        return self.links / "share"

    @property
    def pulumi_home(self) -> Path:
        return self.links / "pulumi"

    @property
    def venv(self) -> Path:
        return self.checkout / ".venv"

    @property
    def venv_python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def dev_lock(self) -> Path:
        return self.checkout / "requirements" / "dev.lock"

    @property
    def pyproject(self) -> Path:
        return self.checkout / "pyproject.toml"

    @property
    def env_file(self) -> Path:
        return self.checkout / ".env.sh"

    @property
    def pulumi_state(self) -> Path:
        return self.state / "pulumi"

    @property
    def passphrase_file(self) -> Path:
        return self.state / "passphrase"
