# SPDX-License-Identifier: Apache-2.0
"""What Coordinators are told: the Servers they may use, and which pairs have a standing link.

A Server is published when it is present, healthy, in its assigned role, has totals, and (with roles) at least
one peer that is published too with the link seen from both ends. So one prefill Server without a decode Server
publishes nothing.
Seed: controller manual, `/v1/instances/refresh`; inclusion as the reference controller decides it.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from controller_runtime.api.roles import Role
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry

Links = dict[int, tuple[int, ...]]
"""Published peers of each published Server, by id; empty tuples without roles."""


def published_links(servers: Iterable[KnownServer], *, has_roles: bool) -> Links:
    """Who is published with which peers, ordered by id.

    With roles, every pair appears with both of its ends, and nobody appears without a peer.
    """
    usable = {server.id: server for server in servers if is_usable(server, has_roles=has_roles)}
    if not has_roles:
        return dict.fromkeys(sorted(usable), ())
    links: dict[int, tuple[int, ...]] = {}
    for group_id in {server.group_id for server in usable.values()}:
        links |= _links_of_group([server for server in usable.values() if server.group_id == group_id])
    return dict(sorted(links.items()))


def _links_of_group(servers: Iterable[KnownServer]) -> Links:
    """Pairs of one group whose link both ends report; every pair appears twice."""
    ordered = sorted(servers, key=lambda server: server.id)
    decodes = {server.id: server.active_peers for server in ordered if server.role is Role.DECODE}
    prefills = {
        server.id: [peer for peer, listed in decodes.items() if peer in server.active_peers and server.id in listed]
        for server in ordered
        if server.role is Role.PREFILL
    }
    linked = {prefill: frozenset(found) for prefill, found in prefills.items()}
    links = {prefill: tuple(found) for prefill, found in prefills.items() if found}
    for decode in decodes:
        if found := tuple(prefill for prefill, peers in linked.items() if decode in peers):
            links[decode] = found
    return links


def is_usable(server: KnownServer, *, has_roles: bool) -> bool:
    """True when nothing but the links of a Server can keep it from being published."""
    is_alive = server.is_present and server.is_healthy and server.config is not None
    if not has_roles:
        return is_alive
    return (
        is_alive and server.is_initialized and not server.is_joining and server.is_in_role and server.total_blocks + server.total_slots > 0
    )


class RefreshBody:
    """Builds the refresh body; links are computed again only when roles, health or links changed."""

    def __init__(self, registry: ServerRegistry, *, has_roles: bool) -> None:
        self._registry = registry
        self._has_roles = has_roles
        self._links: Links = {}
        self._links_version = -1
        self._peer_texts: dict[int, orjson.Fragment] = {}
        self._body = b""
        self._body_version = -1

    @property
    def links(self) -> Links:
        """Published links as of now."""
        if self._links_version != self._registry.wiring_version:
            self._links = published_links(self._registry.present, has_roles=self._has_roles)
            self._peer_texts = {server_id: orjson.Fragment(orjson.dumps(peers)) for server_id, peers in self._links.items()}
            self._links_version = self._registry.wiring_version
        return self._links

    def build(self) -> bytes:
        """The body of `POST /v1/instances/refresh`; the same object while nothing changed."""
        if self._body_version != self._registry.version:
            ids = list(self.links)
            instances = [self._instance(server) for server_id in ids if (server := self._registry.get(server_id)) is not None]
            self._body = orjson.dumps({"ids": ids, "instances": instances})
            self._body_version = self._registry.version
        return self._body

    def _instance(self, server: KnownServer) -> dict[str, object]:
        spec, config, resource = server.spec, server.config, server.resource
        assert config is not None
        dynamic: dict[str, object] = {
            "avail_slots_num": resource.avail_slots_num,
            "avail_block_num": resource.avail_block_num,
            "waiting_request_num": resource.waiting_request_num,
            "running_request_num": resource.running_request_num,
            "swapped_request_num": resource.swapped_request_num,
            "free_npu_block_nums": resource.free_npu_block_nums,
            "free_cpu_block_nums": resource.free_cpu_block_nums,
            "total_npu_block_nums": resource.total_npu_block_nums,
            "total_cpu_block_nums": resource.total_cpu_block_nums,
        }
        if server.role is not Role.UNDEFINED:
            dynamic["peers"] = self._peer_texts[server.id]
        return {
            "id": server.id,
            "ip": spec.ip,
            "model_name": config.model_name,
            "port": str(spec.ports.predict),
            "metric_port": str(spec.ports.metric),
            "inter_comm_port": "" if spec.ports.inter_comm is None else str(spec.ports.inter_comm),
            "static_info": {
                "group_id": server.group_id,
                "virtual_id": server.virtual_id,
                "label": server.label.value,
                "role": server.role.value,
                "p_percentage": 0,
                "max_seq_len": config.max_seq_len,
                "max_output_len": config.max_output_len,
                "block_size": config.cache_block_size,
                "total_slots_num": server.total_slots or resource.avail_slots_num,
                "total_block_num": server.total_blocks or resource.avail_block_num,
            },
            "dynamic_info": dynamic,
        }
