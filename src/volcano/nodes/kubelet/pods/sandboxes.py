"""Sandbox specs: hostname, hosts and resolv.conf of a pod, and its limits."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from volcano.kube.api.manifest import Manifest, key_of, uid_of
from volcano.nodes.kubelet.dns.names import names_of
from volcano.nodes.kubelet.environment.downward import PodInfo
from volcano.nodes.kubelet.environment.environment import hostname_of
from volcano.nodes.kubelet.machine import default_pids_limit
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.kubelet.pods.pod_resources import pod_limit, totals
from volcano.nodes.shim.specs import SandboxSpec

HOSTS_HEAD = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
MAX_NAMESERVERS = 3
MAX_SEARCHES = 32
NDOTS = "ndots:5"


@dataclass(frozen=True, slots=True)
class HostFiles:
    """The files this host resolves names with."""

    hosts: str = ""
    resolv_conf: str = ""


def sandbox_spec(pod: Manifest, info: PodInfo, options: KubeletOptions, host: HostFiles) -> SandboxSpec:
    """The sandbox of a pod. "{address}" in its hosts file is replaced by the address once it is known."""
    spec, key = pod["spec"], key_of(pod)
    known = (pod.get("status") or {}).get("podIP") or ""
    return SandboxSpec(
        uid=uid_of(pod),
        namespace=key.namespace,
        name=key.name,
        node=info.node_name,
        directory=str(options.pod_directory(uid_of(pod))),
        hostname=_kernel_hostname(pod, info, options),
        hosts=hosts_file(pod, info, options, host),
        resolv_conf=resolv_conf(pod, options, host),
        host_network=bool(spec.get("hostNetwork")),
        host_pid=bool(spec.get("hostPID")),
        host_ipc=bool(spec.get("hostIPC")),
        share_pid=bool(spec.get("shareProcessNamespace")),
        host_address=info.host_address,
        wanted_address=known,
        cpu_request=totals(spec, "requests").get("cpu", 0.0) / 1000,
        cpu_limit=pod_limit(spec, "cpu") / 1000,
        memory_limit=int(pod_limit(spec, "memory")),
        pids_limit=options.pod_pids_limit or default_pids_limit(),
        names=names_of(pod, options.cluster_domain),
    )


def domain_of(pod: Manifest, options: KubeletOptions) -> str:
    """The DNS domain of a pod with a subdomain; empty without one."""
    subdomain = pod["spec"].get("subdomain")
    return f"{subdomain}.{key_of(pod).namespace}.svc.{options.cluster_domain}" if subdomain else ""


def _kernel_hostname(pod: Manifest, info: PodInfo, options: KubeletOptions) -> str:
    short, domain = hostname_of(pod, info), domain_of(pod, options)
    if pod["spec"].get("setHostnameAsFQDN") and domain and not pod["spec"].get("hostNetwork"):
        return f"{short}.{domain}"
    return short


def hosts_file(pod: Manifest, info: PodInfo, options: KubeletOptions, host: HostFiles) -> str:
    """/etc/hosts: the pod's hostname, or this host's file with hostNetwork, and the pod's aliases."""
    if pod["spec"].get("hostNetwork"):
        text = host.hosts if not host.hosts or host.hosts.endswith("\n") else host.hosts + "\n"
    else:
        short, domain = hostname_of(pod, info), domain_of(pod, options)
        own = f"{short}.{domain}\t{short}" if domain else short
        text = f"{HOSTS_HEAD}{{address}}\t{own}\n"
    aliases = pod["spec"].get("hostAliases") or ()
    if aliases:
        text += "\n# Entries added by HostAliases.\n"
        text += "".join(f"{alias['ip']}\t{chr(9).join(alias.get('hostnames') or ())}\n" for alias in aliases)
    return text


def resolv_conf(pod: Manifest, options: KubeletOptions, host: HostFiles) -> str:
    """/etc/resolv.conf by the pod's dnsPolicy, then its dnsConfig."""
    spec = pod["spec"]
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"
    servers, searches, resolver_options = _parse_resolv_conf(host.resolv_conf)
    if policy in ("ClusterFirst", "ClusterFirstWithHostNet"):
        cluster, namespace = options.cluster_domain, key_of(pod).namespace
        servers = [options.dns]
        searches = [f"{namespace}.svc.{cluster}", f"svc.{cluster}", cluster, *searches]
        resolver_options = [NDOTS]
    elif policy == "Default" and not spec.get("hostNetwork"):
        # This host's loopback address is another one in a pod; the cluster's DNS asks the same server.
        servers = list(dict.fromkeys(options.dns if _is_loopback(each) else each for each in servers))
    elif policy == "None":
        servers, searches, resolver_options = [], [], []
    config = spec.get("dnsConfig") or {}
    servers = [*servers, *(config.get("nameservers") or ())]
    searches = [*searches, *(config.get("searches") or ())]
    resolver_options = _merge_options(
        resolver_options, [_option(each) for each in config.get("options") or ()]
    )
    lines = []
    if searches:
        lines.append("search " + " ".join(list(dict.fromkeys(searches))[:MAX_SEARCHES]))
    lines += [f"nameserver {server}" for server in list(dict.fromkeys(servers))[:MAX_NAMESERVERS]]
    if resolver_options:
        lines.append("options " + " ".join(resolver_options))
    return "".join(f"{line}\n" for line in lines)


def _is_loopback(server: str) -> bool:
    try:
        return ipaddress.ip_address(server).is_loopback
    except ValueError:
        return False


def _option(entry: Manifest) -> str:
    value = entry.get("value")
    return str(entry["name"]) if value in (None, "") else f"{entry['name']}:{value}"


def _merge_options(options: Sequence[str], more: Sequence[str]) -> list[str]:
    """Merges resolver options; those of the pod override others of the same name."""
    by_name = {option.partition(":")[0]: option for option in (*options, *more)}
    return list(by_name.values())


def _parse_resolv_conf(text: str) -> tuple[list[str], list[str], list[str]]:
    """The name servers, search domains and options of a resolv.conf."""
    servers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    for line in text.splitlines():
        match line.split("#")[0].split():
            case ["nameserver", server, *_]:
                servers.append(server)
            case ["search" | "domain", *domains]:
                searches = [domain for domain in domains if domain != "."]
            case ["options", *words]:
                options += words
    return servers, searches, options
