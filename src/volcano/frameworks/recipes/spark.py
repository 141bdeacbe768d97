"""Spark with its Kubernetes backend, for `spark-submit` and the Spark operator."""

from pathlib import Path

from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "3.5.7"
PATTERNS = ("apache/spark:*", "apache/spark-py:*", "spark:*")
STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Spark sets only `args` of its pods: `driver` with the arguments of spark-submit, or `executor`, whose settings are
# variables. Any other command is run as it is.
ENTRYPOINT = """#!/usr/bin/env python3
import os
import sys

home = os.environ["SPARK_HOME"]
role, arguments = (sys.argv[1:] + [""])[0], sys.argv[2:]
if role == "driver":
    address = os.environ["SPARK_DRIVER_BIND_ADDRESS"]
    settings = ["--conf", f"spark.driver.bindAddress={address}", "--deploy-mode", "client"]
    command = [f"{home}/bin/spark-submit", *settings, *arguments]
elif role == "executor":
    options = {int(n[15:]): v for n, v in os.environ.items() if n.startswith("SPARK_JAVA_OPT_")}
    memory = os.environ["SPARK_EXECUTOR_MEMORY"]
    classes = [os.environ.get("SPARK_CONF_DIR", ""), os.environ.get("SPARK_CLASSPATH", ""), f"{home}/jars/*"]
    flags = {
        "driver-url": "SPARK_DRIVER_URL",
        "executor-id": "SPARK_EXECUTOR_ID",
        "cores": "SPARK_EXECUTOR_CORES",
        "app-id": "SPARK_APPLICATION_ID",
        "hostname": "SPARK_EXECUTOR_POD_IP",
        "resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "podName": "SPARK_EXECUTOR_POD_NAME",
    }
    command = [
        "java",
        *(options[number] for number in sorted(options)),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        ":".join(filter(None, classes)),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *(word for flag, name in flags.items() for word in (f"--{flag}", os.environ[name])),
    ]
else:
    command = sys.argv[1:] or ["sh"]
os.execvp(command[0], command)
"""


def install(installation: Installation) -> None:
    installation.pip(f"pyspark=={VERSION}", "setuptools", "wheel")
    entrypoint = installation.directory / "entrypoint"
    entrypoint.write_text(ENTRYPOINT)
    entrypoint.chmod(0o755)


def home(directory: Path) -> Path:
    """SPARK_HOME of an installation."""
    found = sorted((directory / "venv" / "lib").glob("python3.*/site-packages/pyspark"))
    return found[0] if found else directory / "venv"


def images(directory: Path) -> tuple[ImageMapping, ...]:
    """Spark's own images, for Scala and Python alike."""
    programs = directory / "venv" / "bin"
    environment = {
        "SPARK_HOME": str(home(directory)),
        "PYSPARK_PYTHON": f"{programs}/python3",
        "PATH": f"{programs}:{STANDARD_PATH}",
    }
    entrypoint = (str(directory / "entrypoint"),)
    return tuple(ImageMapping(pattern, (str(directory),), entrypoint, environment) for pattern in PATTERNS)


RECIPE = Recipe(
    name="spark",
    version=VERSION,
    summary="Spark and PySpark, with the Kubernetes backend",
    size="370 MB",
    install=install,
    images=images,
    requires=("java",),
    revision=2,
)
