"""Accounting in the chart: off by default; with SQLite on a volume, or PostgreSQL with a password from a Secret."""

import pytest

from tests.installer.helm import Helm
from tests.installer.test_single_file import PARSERS
from volcano.kube.api.manifest import Key

pytestmark = pytest.mark.k8s
URL = "postgresql://volcano@db.example:5432/accounting"


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def test_by_default_nothing_is_recorded_or_registered(helm: Helm) -> None:
    rendered = helm.template()
    parsed = PARSERS["volcano-controllers"](rendered.container("volcano-controllers")["args"])
    assert parsed.accounting_database == ""
    assert rendered.names("APIService") == set()
    assert rendered.names("PersistentVolumeClaim") == set()


def test_sqlite_is_on_a_volume_that_stays(helm: Helm) -> None:
    rendered = helm.template("custom.accounting_enable=true")
    parsed = PARSERS["volcano-controllers"](rendered.container("volcano-controllers")["args"])
    assert parsed.accounting_database == "sqlite:////var/lib/volcano/accounting.db"
    service = parsed.accounting_service
    assert (service.key, service.port) == (Key("volcano-system", "volcano-accounting"), 443)
    claim = rendered.one("PersistentVolumeClaim", "volcano-accounting")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    pod = rendered.pod("volcano-controllers")
    assert pod["securityContext"]["fsGroup"] == 1000
    assert pod["securityContext"]["runAsNonRoot"] is True
    volume = next(volume for volume in pod["volumes"] if volume["name"] == "accounting")
    assert volume["persistentVolumeClaim"]["claimName"] == "volcano-accounting"
    service = rendered.one("APIService", "v1alpha1.accounting.volcano.sh")["spec"]["service"]
    assert service == {"namespace": "volcano-system", "name": "volcano-accounting", "port": 443}


def test_postgresql_gets_its_password_from_a_secret(helm: Helm) -> None:
    rendered = helm.template(
        "custom.accounting_enable=true",
        f"custom.accounting_database_url={URL}",
        "custom.accounting_database_secret=db",
        "custom.controller_replicas=2",
    )
    container = rendered.container("volcano-controllers")
    assert f"--accounting-database={URL}" in container["args"]
    password = next(each for each in container["env"] if each["name"] == "PGPASSWORD")
    assert password["valueFrom"]["secretKeyRef"] == {"name": "db", "key": "password"}
    assert rendered.names("PersistentVolumeClaim") == set()
    assert "fsGroup" not in rendered.pod("volcano-controllers")["securityContext"]


def test_two_replicas_need_postgresql(helm: Helm) -> None:
    with pytest.raises(AssertionError, match="SQLite serves one replica of the controllers"):
        helm.template("custom.accounting_enable=true", "custom.controller_replicas=2")


def test_viewers_of_a_namespace_may_view_its_usage(helm: Helm) -> None:
    rendered = helm.template("custom.accounting_enable=true")
    role = rendered.one("ClusterRole", "volcano-accounting-viewer-role")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert role["rules"] == [
        {"apiGroups": ["accounting.volcano.sh"], "resources": ["usage", "runs", "jobs"], "verbs": ["list"]}
    ]
