"""CEL as in kube-apiserver: which expressions are accepted, their values, errors and estimated costs."""

import pytest

from tests.apiserver.conformance import RealServer
from tests.k8s.control_plane.cluster import RealCluster
from tests.kube.cel import conformance


def test_expressions_have_the_values_errors_and_costs_of_a_real_server() -> None:
    ours, record = conformance.our_answers(), conformance.recorded()
    assert set(ours) == set(record)
    assert conformance.differences(record, ours) == []


def test_listed_differences_are_still_differences() -> None:
    ours, record = conformance.our_answers(), conformance.recorded()
    assert [each for each in conformance.table()["differences"] if ours[each] == record[each]] == []


@pytest.mark.k8s
@pytest.mark.timeout(300)
def test_the_record_is_that_of_a_real_server(real_apiserver: RealCluster) -> None:
    server = RealServer(real_apiserver.url, real_apiserver.token)
    assert conformance.real_answers(server) == conformance.recorded()
