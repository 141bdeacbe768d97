"""Spark operator: SparkApplications, submitted by the operator with Volcano as batch scheduler.

The operator calls `spark-submit` and its pods are Spark's, so that the recipe `spark` is needed too.
"""

from pathlib import Path

from volcano.base.yaml_loader import load_documents
from volcano.frameworks.operators import Adaptation, write
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe
from volcano.frameworks.recipes import spark

VERSION = "2.3.0"
STARTS_SOON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # spark-submit lives for some seconds
UNPRIVILEGED = 65534  # a user that has a name on the host, as Hadoop's libraries require
MANIFESTS = (
    Path(__file__).parents[1] / "manifests" / "spark-operator.yaml"
)  # the module has a Helm chart instead


def install(installation: Installation) -> None:
    module = "github.com/kubeflow/spark-operator/v2"
    installation.go(module, f"v{VERSION}", {"spark-operator": "./cmd/operator"})
    crds = sorted((installation.directory / "source" / "config" / "crd" / "bases").glob("*.yaml"))
    texts = [path.read_text() for path in (*crds, MANIFESTS)]
    manifests = [document.value for text in texts for document in load_documents(text) if document.value]
    write(installation.directory, manifests, Adaptation())


def images(directory: Path) -> tuple[ImageMapping, ...]:
    """The operator's image is Spark's with the operator as its program."""
    program = f"{directory}/bin/spark-operator"
    home = spark.home(directory.with_name(spark.RECIPE.directory_name))
    return (
        ImageMapping(
            "*spark-operator/controller:*",
            paths=(program, str(home.parents[3])),
            entrypoint=(program,),
            environment={"SPARK_HOME": str(home), "SPARK_SUBMIT_OPTS": f"-Duser.home=/tmp {STARTS_SOON}"},
            user=UNPRIVILEGED,
        ),
    )


RECIPE = Recipe(
    name="spark-operator",
    version=VERSION,
    summary="Operator of SparkApplications",
    size="80 MB",
    install=install,
    images=images,
    requires=("go",),
)
