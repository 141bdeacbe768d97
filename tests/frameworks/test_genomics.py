"""A genomics pipeline as a JobFlow: two pods align, one sorts, one calls variants, with files on a claim."""

import pytest

from tests.embedded.program import NETNS, PLAIN, USERNS, Setting, skip_unless_possible
from tests.frameworks.examples import completed, fails_without, log_lines

pytestmark = pytest.mark.frameworks

EXAMPLE = "frameworks/genomics/pipeline.yaml"
VARIANTS = [f"variant chr1 {change} depth=6" for change in ("42 G T", "119 G A", "198 G T")]


@pytest.mark.parametrize("setting", [NETNS, USERNS, PLAIN], ids=str)
def test_variants_are_called_from_the_reads_that_two_pods_have_aligned(setting: Setting) -> None:
    output = completed(EXAMPLE, setting=skip_unless_possible(setting))
    assert sorted(log_lines(output, "pod . of 2 aligned .*")) == [
        "pod 0 of 2 aligned 13 reads",
        "pod 1 of 2 aligned 12 reads",
    ]
    assert log_lines(output, ".* alignments are sorted") == ["25 alignments are sorted"]
    assert log_lines(output, "variant .*") == VARIANTS


def test_no_variant_is_called_without_the_reads_of_the_second_pod() -> None:
    assert log_lines(fails_without("align", EXAMPLE), "variant .*") == []
