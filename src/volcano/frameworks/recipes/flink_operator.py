"""Flink's Kubernetes operator: FlinkDeployments, whose pods our scheduler places."""

import zipfile
from pathlib import Path

from volcano.base.yaml_loader import load_documents
from volcano.frameworks.operators import USER, Adaptation, write
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "1.7.0"
MANIFESTS = Path(__file__).parents[1] / "manifests" / "flink-operator.yaml"
STARTS_SOON = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # half the CPU time of a start
ARTIFACTS = ("flink-kubernetes-operator", "flink-kubernetes-standalone")
CRDS = "META-INF/fabric8/{}.flink.apache.org-v1.yml"


def install(installation: Installation) -> None:
    jars = installation.maven(*(f"org.apache.flink:{name}:{VERSION}" for name in ARTIFACTS))
    with zipfile.ZipFile(jars / f"flink-kubernetes-operator-api-{VERSION}.jar") as archive:
        names = [CRDS.format(plural) for plural in ("flinkdeployments", "flinksessionjobs")]
        texts = [archive.read(name).decode() for name in names]
    texts.append(MANIFESTS.read_text())
    manifests = [document.value for text in texts for document in load_documents(text) if document.value]
    write(installation.directory, manifests, Adaptation())


def images(directory: Path) -> tuple[ImageMapping, ...]:
    main = "org.apache.flink.kubernetes.operator.FlinkOperator"
    entrypoint = ("java", "-Xmx512m", *STARTS_SOON, "-cp", f"{directory}/jars/*", main)
    pattern = "apache/flink-kubernetes-operator:*"
    return (ImageMapping(pattern, paths=(f"{directory}/jars",), entrypoint=entrypoint, user=USER),)


RECIPE = Recipe(
    name="flink-operator",
    version=VERSION,
    summary="Operator of FlinkDeployments",
    size="120 MB",
    install=install,
    images=images,
    requires=("java", "mvn"),
)
