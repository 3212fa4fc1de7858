# SPDX-License-Identifier: Apache-2.0
"""The table of binaries: what is built, from which package, at which version, with which flags.

Order is build order: first what a preview needs, then the control plane, then the nodes. Versions of
modules are pinned by `tools/go/<family>/go.{mod,sum}`; the `version` column is what an installed
binary must report to be used instead, and the folder version of a Pulumi plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tools.errors import ToolsError

PULUMI = "v3.274.1"
KUBERNETES = "v1.36.3"
KUBERNETES_PROVIDER = "4.25.0"

# pulumi prints no version at all without this, and the automation API then refuses it.
_PULUMI_VALUES = (("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version", PULUMI),)

# The Kubernetes provider parses the version which the API server reports.
_KUBERNETES_VALUES = tuple(
    (f"{package}.{name}", value)
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for name, value in (("gitVersion", KUBERNETES), ("gitMajor", "1"), ("gitMinor", "36"), ("gitTreeState", "clean"))
)


@dataclass(frozen=True)
class ModuleFile:
    """A file that a Go module carries in its source and that must lie beside the binary.

    `paths` are inside the module; several are joined as YAML documents into the one `target`.
    """

    module: str
    paths: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class Binary:
    """One row: `package` is built in `tools/go/<family>` and stamped with `values` by the linker.

    `plugin`: a Pulumi resource plugin, which must not lie on PATH. `scripts`: files of the family that
    lie beside the binary. `version_arguments`: how an installed one tells its version. `beside`: an
    installed one is used only when it lies next to that installed binary. `bundled`: Pulumi's engine looks
    for these files beside its own executable. `optional`: built by name only.
    """

    name: str
    family: str
    package: str
    version: str
    tags: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    scripts: tuple[str, ...] = ()
    module_files: tuple[ModuleFile, ...] = ()
    plugin: bool = False
    version_arguments: tuple[str, ...] = ()
    beside: str | None = None
    bundled: bool = False
    optional: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """Names in the binary's cache folder, the binary first."""
        return (self.name, *self.scripts, *(file.target for file in self.module_files))

    @property
    def plugin_folder(self) -> str:
        """Folder below `plugins` of PULUMI_HOME; the engine matches its version exactly."""
        return f"{self.name.removeprefix('pulumi-')}-v{self.version}"


def _kubernetes(name: str, version_arguments: tuple[str, ...] = ()) -> Binary:
    return Binary(
        name=name,
        family="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        version=KUBERNETES,
        values=_KUBERNETES_VALUES,
        version_arguments=version_arguments,
    )


def _etcd(name: str, package: str) -> Binary:
    return Binary(name=name, family="etcd", package=f"go.etcd.io/etcd/{package}/v3", version="3.6.16")


CATALOGUE: tuple[Binary, ...] = (
    Binary(
        name="pulumi",
        family="pulumi",
        package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        version=PULUMI,
        tags=("osusergo", "grpcnotrace"),
        values=_PULUMI_VALUES,
        version_arguments=("version",),
        bundled=True,
    ),
    Binary(
        name="pulumi-language-python",
        family="pulumi-language-python",
        package=".",
        version=PULUMI,
        values=_PULUMI_VALUES,
        scripts=("pulumi-language-python-exec", "pulumi-resource-pulumi-python"),
        beside="pulumi",
        bundled=True,
    ),
    Binary(name="pulumi-resource-tls", family="pulumi-tls", package=".", version="5.5.1", plugin=True),
    Binary(
        name="pulumi-resource-kubernetes",
        family="pulumi-kubernetes",
        package=".",
        version=KUBERNETES_PROVIDER,
        values=(("github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version", KUBERNETES_PROVIDER),),
        module_files=(
            ModuleFile(
                module="github.com/pulumi/pulumi-kubernetes/provider/v4",
                paths=("cmd/pulumi-resource-kubernetes/schema.json",),
                target="schema.json",
            ),
        ),
        plugin=True,
    ),
    _etcd("etcd", "server"),
    _etcd("etcdctl", "etcdctl"),
    _etcd("etcdutl", "etcdutl"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kubectl", version_arguments=("version", "--client")),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubelet"),
    _kubernetes("kube-proxy"),
    Binary(name="coredns", family="coredns", package=".", version="1.14.0"),
    Binary(name="kube-router", family="kube-router", package="github.com/cloudnativelabs/kube-router/v2/cmd/kube-router", version="2.1.0"),
    Binary(
        name="kwok",
        family="kwok",
        package="sigs.k8s.io/kwok/cmd/kwok",
        version="0.8.0",
        module_files=(
            ModuleFile(
                module="sigs.k8s.io/kwok",
                paths=(
                    "kustomize/stage/node/fast/node-initialize.yaml",
                    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
                    "kustomize/stage/pod/fast/pod-ready.yaml",
                    "kustomize/stage/pod/fast/pod-complete.yaml",
                    "kustomize/stage/pod/fast/pod-delete.yaml",
                ),
                target="kwok-stages.yaml",
            ),
        ),
    ),
    Binary(
        name="pulumi-language-yaml",
        family="pulumi-language-yaml",
        package="github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml",
        version="1.25.0",
        optional=True,
    ),
)


def select(names: Iterable[str], catalogue: Sequence[Binary] = CATALOGUE) -> list[Binary]:
    """Return the rows named, in build order; no names means every row that is not optional.

    Raises:
        ToolsError: a name is not in the table.
    """
    wanted = set(names)
    unknown = sorted(wanted - {binary.name for binary in catalogue})
    if unknown:
        known = ", ".join(binary.name for binary in catalogue)
        raise ToolsError(f"--only: no binary is called {', '.join(unknown)}. Choose from: {known}.")
    return [binary for binary in catalogue if (binary.name in wanted if wanted else not binary.optional)]
