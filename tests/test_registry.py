from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph import _registry as registry
from kymograph._errors import KymographError
from kymograph._registry import Registry, declared, source_file

REGISTRIES = {
    # group of entry points: the package whose own modules declare parts
    "kymograph.studies": "",
    "kymograph.verbs": "kymograph._cli.verbs",
    "kymograph.figures": "kymograph._pictures",
    "kymograph.panels": "kymograph._pictures.report_page",
    "kymograph.formats": "kymograph._runs.formats",
    "kymograph.quantities": "kymograph._probes.quantities",
    "kymograph.engines": "kymograph._sweep.engines",
    "kymograph.data": "kymograph_studies.data",
    "kymograph.models": "kymograph_studies.models",
    "kymograph.rules": "kymograph_studies.rules",
    "kymograph.accelerators": "kymograph_studies.rules.fast",
    "kymograph.nulls": "kymograph_studies.analysis",
}


def test_a_declaration_is_read_from_the_source_and_not_run() -> None:
    assert declared('import nothing_of_that_name\nPART = {"about": "x", "order": 2}\n') == {"about": "x", "order": 2}
    assert declared('PART: dict[str, object] = {"about": "y"}\n') == {"about": "y"}
    for source in (
        "x = 1\n",
        "PART = compute()\n",
        "def f():\n    PART = {}\n",
        "PART = [1]\n",
        "PART = {\n",
        "# PART\n",
    ):
        assert declared(source) is None, source


@pytest.mark.parametrize(("group", "home"), REGISTRIES.items())
def test_every_part_of_the_tree_says_what_it_is(group: str, home: str) -> None:
    parts = Registry(group, home).parts()
    assert parts and all(part.about for part in parts.values())
    assert list(parts) == sorted(parts, key=lambda name: (parts[name].properties.get("order", 1000), name))


def test_listing_imports_no_part() -> None:
    code = (
        f"import sys\nfrom kymograph._registry import Registry\nfor group, home in {REGISTRIES!r}.items():\n"
        "    assert Registry(group, home).names()\n"
        "sys.exit(', '.join({'torch', 'tyro', 'matplotlib', 'scipy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_part_is_one_sentence_with_the_nearest_name() -> None:
    with pytest.raises(KymographError, match="there is no data set 'digit'; did you mean 'digits'"):
        DATA.part("digit")


def test_a_part_that_lacks_what_its_kind_needs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "parts_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text('PART = {"about": "a part"}\n')
    (package / "two_words.py").write_text('PART = {"about": "imports what is absent"}\nimport absent_of_mine\n')
    (package / "support.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("things.of.mine", "parts_of_mine", "make", noun="thing")
    assert registry.names() == ["one", "two-words"]
    with pytest.raises(KymographError, match=r"parts_of_mine\.one defines no 'make', which every thing needs"):
        registry.load("one")
    with pytest.raises(KymographError, match="'two-words' cannot be loaded: No module named 'absent_of_mine'"):
        registry.load("two-words")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of installed packages; `offer` puts parts into it."""
    monkeypatch.syspath_prepend(tmp_path)
    registry.forget_packages()
    before = set(sys.modules)
    yield tmp_path
    registry.forget_packages()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def offer(site: Path, package: str, entries: dict[str, str], group: str = "kymograph.data", **modules: str) -> None:
    """Installs a package with these modules and entry points."""
    (site / package).mkdir()
    for module, text in {"__init__": "", **modules}.items():
        (site / package / f"{module}.py").write_text(text)
    information = site / f"{package}-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
    (information / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")
    importlib.invalidate_caches()


DATA = Registry("kymograph.data", "kymograph_studies.data", "load", noun="data set")


def test_finding_a_file_imports_nothing(site: Path) -> None:
    offer(site, "raising", {}, __init__="raise SystemExit", inner="")
    assert source_file("raising.inner") == (site / "raising" / "inner.py").resolve()
    assert source_file("raising.absent") is None and source_file("absent_of_mine.x") is None
    assert source_file("sys") is None


@pytest.mark.parametrize("trouble", ["1 / 0", "raise RuntimeError('two\\nlines')", "import absent_of_mine", "x ="])
def test_a_package_that_cannot_be_imported_is_listed_and_is_one_sentence_when_loaded(site: Path, trouble: str) -> None:
    """A raise in `pkg/__init__.py` used to end even `kymograph --help`."""
    offer(site, "broken", {"mine": "broken.part"}, __init__=trouble, part='PART = {"about": "a part"}\n')
    assert DATA.parts()["mine"].about == "a part"
    with pytest.raises(KymographError, match="the data set 'mine' cannot be loaded: ") as found:
        DATA.load("mine")
    assert "\n" not in str(found.value)


def test_an_entry_point_does_not_replace_a_built_in_part(site: Path) -> None:
    offer(site, "sly", {"digits": "sly.part"}, part='PART = {"about": "not the digits"}\ndef load(d=None): ...\n')
    assert DATA.parts()["digits"].module == "kymograph_studies.data.images" and DATA.is_built_in("digits")
    with pytest.raises(
        KymographError, match=r"'digits' cannot be used: kymograph_studies\.data\.images and sly\.part both"
    ):
        DATA.load("digits")


def test_two_packages_that_offer_one_name_are_both_named(site: Path) -> None:
    for package in ("one_of_two", "two_of_two"):
        offer(site, package, {"mine": f"{package}.part"}, part="PART = {}\nload = print\n")
    assert "mine" in DATA.names() and not DATA.is_built_in("mine")
    with pytest.raises(KymographError, match=r"one_of_two\.part and two_of_two\.part|two_of_two\.part and one_of_two"):
        DATA.load("mine")


@pytest.mark.parametrize(
    ("declaration", "wrong"),
    [
        ('{"order": "first"}', r'PART\["order"\] in odd\.part must be a number'),
        ('{"order": None}', r'PART\["order"\] in odd\.part must be a number'),
        ('{"about": 3}', r'PART\["about"\] in odd\.part must be a string'),
        ('{"name": ["x"]}', r'PART\["name"\] in odd\.part must be a string'),
        ("dict(about=1)", r"PART in odd\.part is not a dictionary literal"),
        ("{[]: 1}", r"PART in odd\.part is not a dictionary literal"),
        ("3", r"PART in odd\.part is not a dictionary literal"),
    ],
)
def test_a_bad_declaration_is_listed_last_and_is_one_sentence_when_loaded(
    site: Path, declaration: str, wrong: str
) -> None:
    offer(site, "odd", {"zz-mine": "odd.part"}, part=f"PART = {declaration}\nload = print\n")
    assert DATA.names()[-1] == "zz-mine"
    with pytest.raises(KymographError, match=wrong):
        DATA.load("zz-mine")


def test_an_entry_point_may_name_an_object_of_its_module(site: Path) -> None:
    text = 'PART = {"about": "two in one module"}\nclass Both:\n    first = 1\nsecond = 2\n'
    offer(
        site, "both", {"first": "both.part:Both.first", "second": "both.part:second", "no": "both.part:no"}, part=text
    )
    assert (DATA.load("first"), DATA.load("second")) == (1, 2)
    with pytest.raises(KymographError, match="defines no 'no'"):
        DATA.load("no")


def test_a_module_declares_several_parts_and_says_which_attribute_each_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "several_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "two.py").write_text(
        'PARTS = {"first": {"attribute": "one", "about": "a"}, "sec-ond": {"about": "b"}, "third": 3}\n'
        "one = 1\nsec_ond = 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("several.of.mine", "several_of_mine", "make", noun="thing")
    assert registry.names() == ["first", "sec-ond", "third"]
    assert (registry.load("first"), registry.load("sec-ond")) == (1, 2)
    with pytest.raises(KymographError, match=r'PARTS\["third"\] in several_of_mine\.two is not a dictionary literal'):
        registry.load("third")


def test_an_entry_point_is_described_by_the_part_of_its_name(site: Path) -> None:
    text = 'PARTS = {"mine": {"about": "mine"}, "yours": {"about": "yours"}}\nmine = print\nother = len\n'
    offer(site, "pair", {"mine": "pair.part", "yours": "pair.part:other"}, part=text)
    parts = DATA.parts()
    assert (parts["mine"].about, parts["yours"].about) == ("mine", "yours")
    assert (DATA.load("mine"), DATA.load("yours")) == (print, len)


def test_a_group_of_version_0_1_is_still_read(site: Path) -> None:
    offer(
        site, "older", {"mine": "older.part"}, "kymograph.analysis.nulls", part='PART = {"about": "old"}\ndraw = len\n'
    )
    nulls = Registry("kymograph.nulls", "kymograph_studies.analysis", "draw")
    assert nulls.parts()["mine"].about == "old" and nulls.load("mine") is len


def test_parts_of_this_distribution_are_built_in_and_others_are_not(site: Path) -> None:
    offer(site, "foreign_study", {"mine": "foreign_study.part"}, "kymograph.studies", part='PART = {"about": "x"}\n')
    studies = Registry("kymograph.studies", attribute="STUDY", noun="study")
    assert studies.is_built_in("depth") and not studies.is_built_in("mine") and not studies.is_built_in("absent")
