"""Flink, for a session cluster as a Job."""

from pathlib import Path

from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "1.20.3"
STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Roles of Flink's images, and its SQL client; any other command is run as it is. Flink itself computes the sizes of a
# process from its configuration.
ENTRYPOINT = """#!/usr/bin/env python3
import glob
import os
import subprocess
import sys

home, conf = os.environ["FLINK_HOME"], os.environ.get("FLINK_CONF_DIR", "/opt/flink/conf")
gateway = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "jars")
exported = ["java.base/sun.net.util", "java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5"]
exported += ["jdk.compiler/com.sun.tools.javac." + name for name in ("api", "file", "parser", "tree", "util")]
opened = ["lang", "net", "io", "nio", "lang.reflect", "text", "time", "util"]
opened += ["util.concurrent", "util.concurrent.atomic", "util.concurrent.locks"]
access = [f"--add-exports={name}=ALL-UNNAMED" for name in exported]
access += [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in opened]
access += ["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
LIBRARIES = f"{home}/lib/*"
MARK = "BASH_JAVA_UTILS_EXEC_RESULT:"


def java(classes, program, *arguments, options=()):
    logging = f"-Dlog4j.configurationFile=file:{conf}/log4j-console.properties"
    own = os.environ.get("JVM_ARGS", "").split()
    return ["java", *access, logging, *options, *own, "-classpath", ":".join(classes), program, *arguments]


def sizes(question, arguments):
    command = java(
        [f"{home}/bin/bash-java-utils.jar", *glob.glob(f"{home}/lib/flink-dist*.jar")],
        "org.apache.flink.runtime.util.bash.BashJavaUtils",
        question,
        "--configDir",
        conf,
        *arguments,
    )
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    answers = [line[len(MARK) :].split() for line in lines if line.startswith(MARK)]
    return answers[0], answers[1] if len(answers) > 1 else []


program = os.path.basename(sys.argv[0])
role, arguments = (program, sys.argv[1:]) if program != "entrypoint" else (sys.argv[1], sys.argv[2:])
if role == "jobmanager":
    options, settings = sizes("GET_JM_RESOURCE_PARAMS", arguments)
    name = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    command = java([LIBRARIES], name, "--configDir", conf, *settings, *arguments, options=options)
elif role == "taskmanager":
    options, settings = sizes("GET_TM_RESOURCE_PARAMS", arguments)
    name = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
    command = java([LIBRARIES], name, "--configDir", conf, *settings, *arguments, options=options)
elif role == "sql-client.sh":
    os.environ["FLINK_CONF_DIR"] = conf
    classes = [LIBRARIES, f"{home}/opt/*", f"{gateway}/*"]
    command = java(classes, "org.apache.flink.table.client.SqlClient", *arguments)
elif role == "flink":
    os.environ["FLINK_CONF_DIR"] = conf
    command = java([LIBRARIES], "org.apache.flink.client.cli.CliFrontend", *arguments)
else:
    command = [role, *arguments]
os.execvp(command[0], command)
"""


def install(installation: Installation) -> None:
    installation.pip(f"apache-flink-libraries=={VERSION}", "setuptools", "wheel")
    # The SQL client needs it, and the package lacks it.
    installation.maven(f"org.apache.flink:flink-sql-gateway:{VERSION}", transitive=False)
    programs = installation.directory / "bin"
    programs.mkdir(exist_ok=True)
    entrypoint = programs / "entrypoint"
    entrypoint.write_text(ENTRYPOINT)
    entrypoint.chmod(0o755)
    for name in ("sql-client.sh", "flink"):
        (programs / name).symlink_to("entrypoint")


def home(directory: Path) -> Path:
    """FLINK_HOME of an installation."""
    found = sorted((directory / "venv" / "lib").glob("python3.*/site-packages/pyflink"))
    return found[0] if found else directory / "venv"


def images(directory: Path) -> tuple[ImageMapping, ...]:
    environment = {
        "FLINK_HOME": str(home(directory)),
        "FLINK_PLUGINS_DIR": f"{home(directory)}/plugins",
        "PATH": f"{directory}/bin:{STANDARD_PATH}",
    }
    entrypoint = (f"{directory}/bin/entrypoint",)
    patterns = ("flink:*", "apache/flink:*")
    return tuple(ImageMapping(pattern, (str(directory),), entrypoint, environment) for pattern in patterns)


RECIPE = Recipe(
    name="flink",
    version=VERSION,
    summary="Flink's session cluster and SQL client",
    size="270 MB",
    install=install,
    images=images,
    requires=("java", "mvn"),
    revision=2,
)
