"""The report shows what the records say, names what is missing, and is a page that every browser can read."""

import dataclasses
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import torch

from pyroclaw.experiments import presets, report
from pyroclaw.experiments.records import Results, read, summarise
from pyroclaw.inference.sequence import Learned
from pyroclaw.models import METHODS

OWN = {"beta": 0.1, "gamma": "tied", "adaptation": "learned"}
CONFIG = {
    "protocol": "split_mnist",
    "settings": OWN,
    "data_source": "own <data> & more",
    "data": "0123",
    "stand_in": False,
    "split": "image",
    "augment": True,
    "epochs": 10.0,
    "batch_size": 128,
    "net": {"kind": "mlp", "hidden": (3, 3)},
    "heads": "multi",
}
NOTMNIST = {"protocol": "split_notmnist", "batch_size": 256}
VOID = {"meta", "img", "br"}


def store(
    out, method, accuracies, bench="split_mnist", setting="default", finished=3, rich=False, first=0, said=(), **changes
):
    """Records of one repetition for each accuracy, through `finished` of three tasks."""
    results = Results(out, setting, CONFIG | {"bench": bench, "method": method} | changes, 3)
    results.begin_plate([first + r for r in range(len(accuracies))])
    for t in range(finished):
        rows = torch.tensor(accuracies).expand(t + 1, -1) - 0.01 * torch.arange(t + 1)[:, None]
        calibration = {name: torch.stack([rows / 2, rows / 3, rows / 4]) for name in ("mean weights", "samples")}
        transfer = torch.tensor(accuracies) - 0.02 * t if rich else None
        sizes, found = (1000 + t, 4000 + 100 * t), calibration if rich else {}
        results.add(Learned(t, rows, rows, torch.zeros(5, len(accuracies)), 6.0, *sizes, dict(said), found, transfer))
    return results.folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """By a short name, in one folder of results: all that a report has to cope with."""
    out = tmp_path_factory.mktemp("work") / "some results"
    noise = [0.0, 0.001, -0.001, 0.002]
    made = {
        "claw": store(out, "claw", [0.97 + x for x in noise], rich=True),
        "vcl": store(out, "vcl", [0.95 - x for x in noise]),
        "ceiling": store(out, "independent", [0.99 + x for x in noise]),
        "never": store(out, "claw", [0.93, 0.92], setting="adaptation-never", settings=OWN | {"adaptation": "never"}),
        "softer": store(out, "claw", [0.94], setting="beta-0.2", settings=OWN | {"beta": 0.2, "gamma": "mean-field"}),
        "lone": store(out, "claw", [0.9], bench="split_notmnist", **NOTMNIST),
        "broken": store(out, "ewc", [0.1], bench="split_notmnist", **NOTMNIST, finished=2),
        "glyphs": store(out, "claw", [0.6, 0.7], bench="split_glyphs", **NOTMNIST, stand_in=True),
    }
    return {"results": out, **made}


@pytest.fixture(scope="module")
def made(folders):
    """The page and the Markdown, as texts."""
    page, tables = folders["results"].parent / "report.html", folders["results"].parent / "tables.md"
    assert report.main(["--results", str(folders["results"]), "--out", str(page), "--markdown", str(tables)]) == 0
    return page.read_text(), tables.read_text()


class Page(HTMLParser):
    """Headings, attributes and tables of a page; fails where tags are not balanced."""

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.tags, self.rows, self.text = [], [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag[0] == "h" and tag[1:].isdigit():
            self.headings.append(int(tag[1:]))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        if "style" not in self.open:
            self.text += data


def test_numbers_are_those_of_the_records(made, folders):
    page = Page(made[0])
    for name, label in (("claw", "CLAW"), ("vcl", "VCL"), ("ceiling", "independent (ceiling)")):
        average = summarise(read(folders[name]))["average_accuracy"]
        ours = f"{100 * average['mean']:.2f} ± {100 * average['standard_error']:.2f}"
        (row,) = [row for row in page.rows if row[0] == label and row[2:3] == [ours] and row[-1] == "4"]
        assert row[1] == {"CLAW": "99.1 ± 0.2", "VCL": "97.0 ± 0.4"}.get(label, "–")
        assert row[3] == "98.05 ± 0.06"  # the mean of 0.99 + noise, less 0.01 on average over tasks
    link = f'<a href="some%20results/split_mnist/claw/{folders["claw"].name}/">'
    assert f"<strong>{link}96.05 ± 0.06</a></strong>" in made[0]
    assert made[0].count("<strong>") == 2  # in the overview and in the benchmark's table


def test_tables_1_and_2_calibration_memory_and_ablations(made, folders):
    rows = Page(made[0]).rows
    before = 100 * (np.mean([0.97, 0.971, 0.969, 0.972]) - 0.005)
    assert ["CLAW", "99.2 ± 0.2", f"{before:.2f} ± 0.06 [4]", "99.1 ± 0.2", "96.05 ± 0.06 [4]"] in rows
    assert ["CLAW", f"{649 / 637:.2f}", "1.00", "649", "4"] in rows  # 3 tasks of 6 s for a plate of four: 4.5 s
    measures = summarise(read(folders["claw"]))["calibration"]["samples"]
    ece, nll, brier = (np.mean(measures[name][-1]) for name in ("ece", "nll", "brier"))
    (row,) = [row for row in rows if row[0] == "CLAW" and len(row) == 7 and "±" in row[-1]]
    assert [text.split(" ± ")[0] for text in row[1:]] == [f"{100 * ece:.2f}", f"{nll:.4f}", f"{brier:.4f}"] * 2
    peak = f"{summarise(read(folders['claw']))['peak_memory_mb']:,.0f}"
    assert ["CLAW", "1,002", "1", "4", "1", "0.1", peak] in rows
    assert ["never adapted", "91.50 ± 0.50", "-4.55 ± 0.55", "0.077", "2"] in rows


def test_another_setting_is_named_by_what_really_differs(made):
    rows = Page(made[0]).rows
    assert ["CLAW: beta-0.2_gamma-mean-field", "93.00", "-3.00", "–", "1"] in rows  # its folder says beta only


def test_forgetting_transfer_and_all_that_changes_over_time(made):
    rows = Page(made[0]).rows
    (row,) = [row for row in rows if row[0] == "CLAW" and len(row) == 6 and row[1] == "0.00 ± 0.00"][:1]
    assert row[2:] == ["0.00 ± 0.00", "97.05 ± 0.06", "93.05 ± 0.06", "-4.00 ± 0.00"]  # transfer falls by 2 a task
    assert ["after task 2", "97.0", "96.0", ""] in rows  # a row of the accuracy matrix
    ece = [f"{25 * (0.9705 - 0.005 * t):.2f}" for t in range(3)]
    assert ["CLAW", *ece] in rows  # after each task
    assert ["CLAW", *(f"{25 * (0.9705 - 0.01 * k):.2f}" for k in range(3))] in rows  # of each task at the end


def test_a_part_of_the_repetitions_may_have_transfer_and_calibration(tmp_path):
    store(tmp_path / "results", "claw", [0.9, 0.91], rich=True)
    store(tmp_path / "results", "claw", [0.92], first=2)
    assert report.main(["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report.html")]) == 0
    page = Page((tmp_path / "report.html").read_text())
    (row,) = [row for row in page.rows if row[0] == "CLAW" and row[-1] == "-4.00 ± 0.00 [2]"]
    assert row[-2] == "86.50 ± 0.50 [2]" and ["CLAW [2]", "90.50 ± 0.50", "88.50 ± 0.50", "86.50 ± 0.50"] in page.rows
    assert page.text.count("the number of repetitions, where it was measured on some only") > 1


def test_reduced_runs_are_compared_among_themselves_only(tmp_path):
    results, few = tmp_path / "results", {"setting": "tasks-3", "tasks": 3}
    store(results, "claw", [0.99, 0.98, 0.97])
    store(results, "claw", [0.9, 0.91, 0.92], **few)
    store(results, "vcl", [0.8, 0.82, 0.81], **few)
    store(results, "independent", [0.95, 0.95], **few)
    store(results, "rcl", [0.7, 0.71], **few | {"setting": "trials-3_tasks-3"})
    store(
        results,
        "claw",
        [0.97, 0.98, 0.99],
        **few | {"setting": "adaptation-never_tasks-3"},
        settings=OWN | {"adaptation": "never"},
    )
    store(results, "vcl", [0.6, 0.61], setting="epochs-1.0_tasks-3", tasks=3, epochs=1.0)
    assert report.main(["--results", str(results), "--out", str(tmp_path / "report.html")]) == 0
    text = (tmp_path / "report.html").read_text()
    page = Page(text)
    first = page.rows.index(["split MNIST: first 3 tasks"])
    assert page.rows[first + 1 : first + 8] == [
        ["CLAW", "90.00 ± 0.58", "94.00 ± 0.00", "0.00 ± 0.00", "3"],
        ["CLAW: never adapted", "97.00 ± 0.58", "94.00 ± 0.00", "0.00 ± 0.00", "3"],
        ["VCL", "80.00 ± 0.58", "94.00 ± 0.00", "0.00 ± 0.00", "3"],
        ["RCL: trials-3", "69.50 ± 0.50", "94.00 ± 0.00", "0.00 ± 0.00", "2"],
        ["independent (ceiling)", "94.00 ± 0.00", "94.00 ± 0.00", "0.00 ± 0.00", "2"],
        ["split MNIST: first 3 tasks, 1 epoch"],
        ["VCL", "59.50 ± 0.50", "–", "0.00 ± 0.00", "2"],
    ]
    assert [part.partition("</a>")[0].rpartition(">")[2] for part in text.split("<strong>")[1:]] == ["90.00 ± 0.58"]
    assert next(row for row in page.rows if row[0] == "VCL" and len(row) == 5)[2] == "–"  # not in the main table


def test_a_row_with_other_settings_than_the_preset_is_called_so(tmp_path, monkeypatch):
    """A search may have put others into the preset since."""
    monkeypatch.setattr(presets, "FOLDER", tmp_path / "presets")
    presets.FOLDER.mkdir()
    usual = dataclasses.asdict(METHODS["ewc"].settings())
    store(tmp_path / "results", "ewc", [0.9, 0.91], settings=usual)
    arguments = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report.html")]
    said = []
    for preset in ("", "[ewc]\nlam = 7\nlr = 0.5\n"):
        (presets.FOLDER / "split_mnist.toml").write_text(preset)
        assert report.main(arguments) == 0
        said.append("the preset has changed since: EWC (lam, lr)" in (tmp_path / "report.html").read_text())
    assert said == [False, True]


def test_a_name_does_not_make_a_reduced_run_a_whole_one(tmp_path):
    """What a run was is in its configuration, whatever its folder is called."""
    store(tmp_path / "results", "claw", [0.9, 0.91], tasks=3)
    store(tmp_path / "results", "vcl", [0.8, 0.82], epochs=1.0)
    assert report.main(["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report.html")]) == 0
    rows = Page((tmp_path / "report.html").read_text()).rows
    assert ["split MNIST: first 3 tasks"] in rows and ["split MNIST: 1 epoch"] in rows
    assert not [row for row in rows if row[0] == "method" and "paper" in row]


def test_a_benchmark_has_a_column_once_there_is_a_whole_run(tmp_path):
    """Also where few methods were measured: the others have the paper's figure, and a dash."""
    omniglot = {"bench": "omniglot", "protocol": "omniglot", "epochs": 15.0, "batch_size": 256}
    store(tmp_path / "results", "claw", [0.9, 0.91])
    store(tmp_path / "results", "claw", [0.8], setting="tasks-3", tasks=3, **omniglot)
    page = tmp_path / "README.md"
    arguments = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report.html"), "--into", str(page)]
    tables = []
    for method in (None, "claw", "independent"):
        if method:
            store(tmp_path / "results", method, [0.7, 0.75, 0.72], **omniglot)
        page.write_text("<!-- made by experiments/report.py -->\n<!-- end -->\n")
        assert report.main(arguments) == 0
        lines = [line.split("|")[1:-1] for line in page.read_text().splitlines() if line.startswith("|")]
        tables.append({cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines})
    assert tables[0]["method"] == ["split MNIST"] and tables[1]["method"] == ["split MNIST", "Omniglot"]
    assert tables[1]["CLAW"][1].startswith("[71.33 ± 1.45](") and tables[1]["CLAW"][1].endswith("*[3] (84.6)*")
    assert tables[1]["EWC"] == ["– *(94.2)*", "– *(77.3)*"]
    assert "independent (ceiling)" not in tables[1] and tables[2]["independent (ceiling)"][0] == "–"


def test_what_lies_above_the_ceiling_is_named(made):
    text = Page(made[0]).text
    line = "Figures of the paper above the ceiling of its own net, 98.05 ± 0.06 (each task trained alone): "
    assert line + "CLAW 99.1, VCL + coreset 98.4, FRCL 98.1, LTG 98.3." in text
    assert line in made[1]
    assert "The ceiling is not measured yet." in text


def test_what_is_missing_or_not_finished_is_named(made):
    page = Page(made[0])
    assert "EWC (default), seed 0: 2 of 3 tasks" in page.text
    assert ["EWC", "92.3 ± 0.4", "–", "–", "–"] in page.rows
    assert ["CLAW", "98.4 ± 0.2", "89.00", "–", "1"] in page.rows  # one repetition has no standard error
    assert page.text.count("Not measured yet: ") == 3 + 1 + 2 and "Omniglot, CIFAR-100" in page.text


def test_a_stand_in_has_a_name_of_its_own_and_no_figure_of_the_paper(made):
    page = Page(made[0])
    title = "split_glyphs (stand-in, not split notMNIST)"
    assert ["CLAW", "–", "64.00 ± 5.00", "–", "2"] in page.rows
    assert [
        title,
        "STAND-IN",
        "own <data> & more (0123)",
        "MLP, hidden 3-3",
        "multi heads",
        "10 epochs of batches of 256",
    ] in page.rows
    overview = next(row for row in page.rows if row[0] == "method")
    assert overview == ["method", "split MNIST", "split notMNIST", title]


def test_a_stand_in_under_the_real_name_is_kept_apart(tmp_path):
    store(tmp_path, "claw", [0.9, 0.8], stand_in=True)
    assert report.main(["--results", str(tmp_path), "--out", str(tmp_path / "report.html")]) == 0
    page = Page((tmp_path / "report.html").read_text())
    assert next(row for row in page.rows if row[0] == "method") == ["method", "stand-in for split MNIST"]


def test_a_reduced_use_is_named_beside_its_number(tmp_path):
    store(tmp_path / "results", "rcl", [0.9, 0.91], said={"note": "3 trials per task, reduced"})
    options = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report.html")]
    assert report.main([*options, "--markdown", str(tmp_path / "report.md")]) == 0
    for page in ("report.html", "report.md"):
        lines = [line for line in (tmp_path / page).read_text().splitlines() if "89.50 ± 0.50" in line]
        assert lines and all("3 trials per task, reduced" in line for line in lines)


def test_the_page_is_well_formed_and_needs_nothing_else(made, folders):
    page, base = Page(made[0]), folders["results"].parent
    assert page.tags[0] == ("html", {"lang": "en"}) and "title" in dict(page.tags)
    assert page.headings[0] == 1 and page.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(names) == len(set(names))
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(pictures) == 3 + 3 + 1 + 1 + 2 and all(len(picture["alt"]) > 50 for picture in pictures)
    assert all(attributes["scope"] for tag, attributes in page.tags if tag == "th")
    assert not {"script", "link", "iframe"} & {tag for tag, _ in page.tags} and "http" not in made[0]
    for _, attributes in page.tags:
        assert attributes.get("src", "data:").startswith("data:")
        address = attributes.get("href", "#part-1")
        assert address[1:] in names if address[0] == "#" else (base / unquote(address)).is_dir()
        assert attributes.get("aria-labelledby", "part-1") in names


def test_markdown_has_the_same_numbers_and_links(made, folders):
    lines = made[1].splitlines()
    assert lines[2] == "| method | split MNIST | split notMNIST | split_glyphs (stand-in, not split notMNIST) |"
    (row,) = [line for line in lines if line.startswith("| CLAW | [**96.05 ± 0.06**](some%20results/split_mnist/claw/")]
    assert row.count("|") == 5 and " *[4] (99.1)* |" in row
    for address in [part.split(")")[0] for part in made[1].split("](")[1:]]:
        assert (folders["results"].parent / unquote(address)).is_dir()


def test_the_overview_goes_between_the_marks_of_a_page(made, folders, capsys):
    folder = folders["results"].parent
    page = folder / "README.md"
    page.write_text("before\n<!-- made by experiments/report.py -->\nold\n<!-- end -->\nafter\n")
    arguments = ["--results", str(folders["results"]), "--out", str(folder / "again.html"), "--into", str(page)]
    assert report.main(arguments) == 0
    before, table, after = page.read_text().split("\n\n")
    assert before.startswith("before\n<!--") and after == "<!-- end -->\nafter\n" and table in made[1]
    page.write_text("no marks")
    assert report.main(arguments) == 2 and "has no marks" in capsys.readouterr().err
    assert page.read_text() == "no marks"


def test_the_same_records_give_the_same_bytes(made, folders):
    again = folders["results"].parent / "again.html"
    assert report.main(["--results", str(folders["results"]), "--out", str(again)]) == 0
    assert again.read_text() == made[0]


def test_without_any_record_there_is_a_page_that_says_so(tmp_path):
    assert report.main(["--results", str(tmp_path), "--out", str(tmp_path / "report.html")]) == 0
    page = Page((tmp_path / "report.html").read_text())
    assert page.text.count("Not measured yet") > 6 and not page.rows


OTHER_DATA = {"data": "4567"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"settings": {"beta": 0.3}}),
        ({}, OTHER_DATA),
        ({}, OTHER_DATA | {"setting": "adaptation-never"}),
        ({"setting": "tasks-3", "tasks": 3}, {"setting": "tasks-3", "tasks": 3} | OTHER_DATA),
    ],
)
def test_records_that_cannot_be_compared_are_refused(tmp_path, capsys, one, other):
    store(tmp_path, "claw", [0.9], **one)
    store(tmp_path, "claw", [0.8], **other)
    assert report.main(["--results", str(tmp_path), "--out", str(tmp_path / "report.html")]) == 2
    assert "different settings or data" in capsys.readouterr().err and not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(("option", "word"), [("--results", "is not a folder"), ("--out", "cannot be written")])
def test_bad_input_is_one_sentence(tmp_path, capsys, option, word):
    good = {"--results": str(tmp_path), "--out": str(tmp_path / "report.html")}
    call = good | {option: str(Path(tmp_path, "nowhere", "at all"))}
    assert report.main([part for pair in call.items() for part in pair]) == 2
    error = capsys.readouterr().err
    assert word in error and "nowhere" in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_joint_training_that_waited_counts_by_what_it_ended_with(tmp_path):
    results, page, tables = tmp_path / "results", tmp_path / "report.html", tmp_path / "tables.md"
    store(results, "claw", [0.97, 0.96])
    store(results, "joint", [0.98, 0.94], setting="first-3", settings={"first": 3}, rich=True)
    assert report.main(["--results", str(results), "--out", str(page), "--markdown", str(tables)]) == 0
    (overview,) = [line for line in tables.read_text().splitlines() if line.startswith("| joint")][:1]
    assert "[95.00 ± 2.00](results/split_mnist/joint/first-3" in overview
    rows = [row[1:] for row in Page(page.read_text()).rows if row[0] == "joint (ceiling)"]
    assert ["–", "–", "95.00 ± 2.00"] in rows  # after each task: figure 1
    assert [row for row in rows if len(row) == 5 and row[:2] == ["–", "–"] and row[2] == "96.00 ± 2.00"]  # forgetting
    assert "nan" not in page.read_text().casefold()
