"""Image maps: their file, and which entry an image gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.nodes.image_map import ImageMap, ImageMapError, MappedPath, as_yaml, mapped_path, parse
from volcano.nodes.image_mapping import ImageMapping

FULL = """
images:
- image: apache/spark:3.*
  paths: [/opt/spark, "/opt/tools/spark:/usr/local/bin/spark", "/scratch:rw", "/data:/mnt:rw"]
  entrypoint: [/opt/spark/entrypoint.sh]
  args: [help]
  env: {SPARK_HOME: /opt/spark}
  user: 185
  workingDir: /opt/spark
"""


def test_every_key_of_an_entry_is_read() -> None:
    assert parse(FULL, "images.yaml") == (
        ImageMapping(
            pattern="apache/spark:3.*",
            paths=("/opt/spark", "/opt/tools/spark:/usr/local/bin/spark", "/scratch:rw", "/data:/mnt:rw"),
            entrypoint=("/opt/spark/entrypoint.sh",),
            arguments=("help",),
            environment={"SPARK_HOME": "/opt/spark"},
            user=185,
            working_directory="/opt/spark",
        ),
    )


def test_paths_are_read_only_and_at_the_same_place_unless_said_otherwise() -> None:
    assert mapped_path("/a") == MappedPath("/a", "/a")
    assert mapped_path("/a:/b") == MappedPath("/a", "/b")
    assert mapped_path("/a:rw") == MappedPath("/a", "/a", writable=True)
    assert mapped_path("/a:/b:rw") == MappedPath("/a", "/b", writable=True)
    assert mapped_path("/a:/b:ro") == MappedPath("/a", "/b")


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters=":="), min_size=1
)
PATHS = WORDS.filter(lambda word: ".." not in word.split("/")).map("/{}".format)


@given(
    st.lists(
        st.builds(
            ImageMapping,
            pattern=WORDS,
            paths=st.lists(PATHS).map(tuple),
            entrypoint=st.lists(WORDS).map(tuple),
            environment=st.dictionaries(WORDS, WORDS),
            user=st.none() | st.integers(0, 2**31 - 1),
            arguments=st.lists(WORDS).map(tuple),
            working_directory=st.just("") | PATHS,
        )
    )
)
def test_a_written_map_is_read_as_it_was(mappings: list[ImageMapping]) -> None:
    assert parse(as_yaml(mappings), "images.yaml") == tuple(mappings)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- image: a", "m: an image map is `images:` with a list of entries, not [{'image': 'a'}]"),
        ("images: {a: b}", "m: an image map is `images:` with a list of entries, not"),
        ("images: [x", "m: not valid YAML: "),
        ("images: []\nimages: []", 'm: not valid YAML: line 2: key "images" already set in map'),
        ("images: [spark]", "m: images[0]: an entry is an object with `image`, not 'spark'"),
        ("images: [{paths: [/a]}]", "m: images[0]: `image` is missing; give a pattern of image names"),
        (
            "images: [{image: a, entryPoint: [b]}]",
            "m: images[0]: unknown key 'entryPoint'; did you mean 'entrypoint'?",
        ),
        (
            "images: [{image: a, zzz: 1}]",
            "m: images[0]: unknown key 'zzz'; known keys are image, paths, entrypoint",
        ),
        ("images: [{image: 'a b'}]", "m: images[0] (a b): image: 'a b' is no pattern of image names"),
        (
            "images: [{image: a, paths: /opt}]",
            "m: images[0] (a): paths: '/opt' is no list of strings; write [a, b]",
        ),
        (
            "images: [{image: a, paths: [opt]}]",
            "m: images[0] (a): paths: 'opt' is no absolute path; write SOURCE or",
        ),
        ("images: [{image: a, paths: [/a/../b]}]", "m: images[0] (a): paths: '/a/../b' is no absolute path"),
        (
            "images: [{image: a, paths: ['/a:/b:x']}]",
            "m: images[0] (a): paths: '/a:/b:x' ends with 'x'; write ro",
        ),
        ("images: [{image: a, entrypoint: []}]", "m: images[0] (a): entrypoint: is empty; give the program"),
        (
            "images: [{image: a, args: [1]}]",
            "m: images[0] (a): args: [1] is no list of strings; write [a, b], and quote",
        ),
        (
            "images: [{image: a, env: [A]}]",
            "m: images[0] (a): env: ['A'] is no object of names and values, such as",
        ),
        (
            "images: [{image: a, env: {A: 1}}]",
            "m: images[0] (a): env: value of A is 1, not a string; quote it",
        ),
        ("images: [{image: a, env: {'A=': x}}]", "m: images[0] (a): env: 'A=' is no name of a variable"),
        (
            "images: [{image: a}, {image: b, user: root}]",
            "m: images[1] (b): user: 'root' is no user id; give a number",
        ),
        ("images: [{image: a, user: -1}]", "m: images[0] (a): user: -1 is no user id"),
        ("images: [{image: a, user: true}]", "m: images[0] (a): user: True is no user id"),
        ("images: [{image: a, workingDir: x}]", "m: images[0] (a): workingDir: 'x' is no absolute path"),
    ],
)
def test_errors_name_the_entry_and_what_would_be_right(text: str, reason: str) -> None:
    with pytest.raises(ImageMapError) as caught:
        parse(text, "m")
    assert str(caught.value).startswith(reason)


def test_an_empty_file_maps_nothing() -> None:
    assert parse("", "m") == parse("images:\n", "m") == ()


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("apache/spark:3.5.7", "apache/spark:3.*"),
        ("docker.io/apache/spark:3.5.7", "apache/spark:3.*"),
        ("apache/spark:4.0", "apache/spark"),
        ("apache/spark", "apache/spark"),
        ("apache/spark@sha256:00", "apache/spark"),
        ("docker.io/library/flink:1.20", "flink"),
        ("registry.example:5000/team/ray:2", "*/ray:*"),
        ("apache/spark-operator:1", None),
        ("Apache/Spark:3.5", None),
        ("", None),
    ],
)
def test_the_first_matching_pattern_is_used(image: str, found: str | None) -> None:
    patterns = ("apache/spark:3.*", "apache/spark", "flink", "*/ray:*", "*/spark:3.5.7")
    mapping = ImageMap([ImageMapping(pattern) for pattern in patterns]).find(image)
    assert (mapping.pattern if mapping else None) == found
