# SPDX-License-Identifier: Apache-2.0
"""The proof that a stack serves: one request through the Coordinator, answered by a prefill and a decode pod.

A Job whose name carries the hash of what it proves: unchanged, it is not run again; changed, it is. The
number of instances is left out, so scaling touches nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pulumi import ComponentResource, Output, Resource, ResourceOptions
from pulumi_kubernetes.batch.v1 import Job

from components.access import service_account
from components.pods import Container, Manifest, pod_template, tls_volume
from controller_runtime.api.edges import PROOF_APP
from controller_runtime.api.pki import Identity
from controller_runtime.api.stack import Resources

LABELS = {"app": PROOF_APP}
GRACE_FOR_START_S = 60


@dataclass(frozen=True)
class ProofArgs:
    """`proves`: everything that makes another run necessary, as JSON values. `timeout_s`: until the stack answers.

    `expect_trace`: the answer names both pods, as the simulated engine does.
    """

    namespace: str
    image: str
    endpoint: str
    identity: Identity
    timeout_s: int
    proves: object
    expect_trace: bool
    depends_on: Sequence[Resource] = ()


class Proof(ComponentResource):
    """The Job; its success is the success of the stack."""

    TOKEN = "ascend-pd:index:Proof"

    job: Job
    passed: Output[str]

    def __init__(self, name: str, args: ProofArgs, opts: ResourceOptions | None = None) -> None:
        """Declare the Job after all that it needs."""
        super().__init__(self.TOKEN, name, {"endpoint": args.endpoint}, opts)
        child = ResourceOptions(parent=self, depends_on=list(args.depends_on))
        account = service_account(name, PROOF_APP, args.namespace, child)
        template = proof_template(args)
        job_name = f"{PROOF_APP}-{proof_hash(args, template)}"
        self.job = Job(
            f"{name}-job",
            metadata={
                "name": job_name,
                "namespace": args.namespace,
                "labels": LABELS,
                "annotations": {"pulumi.com/timeoutSeconds": str(args.timeout_s + GRACE_FOR_START_S), "pulumi.com/replaceUnready": "true"},
            },
            spec=job_spec(args, template),
            opts=ResourceOptions.merge(child, ResourceOptions(depends_on=[account])),
        )
        self.passed = self.job.metadata.apply(lambda metadata: str(metadata.name))
        self.register_outputs({"passed": self.passed})


def proof_hash(args: ProofArgs, template: Manifest) -> str:
    """Name the content that this run proves."""
    return hashlib.sha256(json.dumps([args.proves, template], sort_keys=True, default=str).encode()).hexdigest()[:8]


def job_spec(args: ProofArgs, template: Manifest) -> Manifest:
    """Spec of the Job: one attempt after another until the deadline, which the client itself keeps."""
    return {"backoffLimit": 0, "activeDeadlineSeconds": args.timeout_s + GRACE_FOR_START_S, "template": template}


def proof_template(args: ProofArgs) -> Manifest:
    """Pod template of the Job."""
    container = Container(
        name="proof",
        image=args.image,
        command=["smoke"],
        args=[
            f"--endpoint={args.endpoint}",
            f"--tls-dir={args.identity.directory}",
            f"--wait-s={args.timeout_s}",
            *(["--expect-trace"] if args.expect_trace else []),
        ],
        resources=Resources(),
        volumes=[tls_volume(args.identity)],
    )
    return pod_template(labels=LABELS, containers=[container], service_account=PROOF_APP, restart_policy="Never")
