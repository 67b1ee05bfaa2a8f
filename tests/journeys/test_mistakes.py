"""Mistakes that new users make, one row each: what they type, and what the message has to name.

Three rules hold for all of them. There is one error, of one line or of a line for each problem, and never a traceback.
What can be refused without Spark is refused before it starts. And nothing half-written is left behind.
"""

import gzip
import json
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.model.scenario import read_scenario
from overstory.pipeline import session
from overstory.pipeline.pipeline import Pipeline
from overstory.planners.chains import make_plan

from .test_scenario import Result, overstory

OK, FAILED, STALE, INFEASIBLE, USAGE = 0, 1, 3, 4, 64
Change = Callable[[bytes], bytes]
FOLDER = object()  # an empty one


class Mistake(NamedTuple):
    typed: str
    code: int
    words: tuple[str, ...]  # whose fault it is, and what next
    files: Mapping[str, object] = {}  # what stands in files, a change of what does, or None for a file that is gone
    spark: bool = False  # whether it takes Spark to see the mistake
    makes: tuple[str, ...] = ()  # of a mistake that is only warned of


LOG = "n,site,temp\n1,oslo,20.5\n2,bern,18\n3,oslo,21\n"
NET = "source,target,price\noslo,bern,2\nbern,rome,3\n"
CSV = {"log.csv": LOG, "net.csv": NET}
IMPORT = "scenario import made --events log.csv --topology net.csv"
JSON_IMPORT = "scenario import made --events log.jsonl --topology net.csv"
DRAWN = "scenario make localized made --topology g.graphml"


def log(text: str | bytes) -> dict[str, object]:
    return {**CSV, "log.csv": text}


def lines(text: str) -> dict[str, object]:
    return {**CSV, "log.jsonl": text}


def links(text: str) -> dict[str, object]:
    return {**CSV, "net.csv": text}


def also(name: str, text: str) -> dict[str, object]:
    return {**CSV, name: text}


def graph(nodes: str, *edges: str, kind: str = "undirected") -> dict[str, object]:
    """Edges are written as ``a-b`` or, with a price, as ``a-b:3``."""
    inner = "".join(f'<node id="{node}"/>' for node in nodes)
    for edge in edges:
        (one, _, other), price = edge.partition(":")[0].partition("-"), edge.partition(":")[2]
        toll = f'<data key="p">{price}</data>' if price else ""
        inner += f'<edge source="{one}" target="{other}">{toll}</edge>'
    key = '<key id="p" for="edge" attr.name="price" attr.type="double"/>'
    spaces = 'xmlns="http://graphml.graphdrawing.org/xmlns"'
    return {"g.graphml": f'<graphml {spaces}>{key}<graph edgedefault="{kind}">{inner}</graph></graphml>'}


def settings(old: str, new: str) -> dict[str, object]:
    def change(content: bytes) -> bytes:
        assert old.encode() in content
        return content.replace(old.encode(), new.encode())

    return {"net/scenario.toml": change}


def header(old: str, new: str) -> dict[str, object]:
    return {"spt/plan.json": settings(old, new)["net/scenario.toml"]}


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def with_column(name: str, value: object) -> Change:
    """A table whose column has this value in every row."""

    def change(content: bytes) -> bytes:
        table, sink = pq.read_table(pa.BufferReader(content)), pa.BufferOutputStream()
        column = pa.array([value] * len(table), table.schema.field(name).type)
        pq.write_table(table.set_column(table.column_names.index(name), name, column), sink)
        return bytes(sink.getvalue().to_pybytes())

    return change


COMMAND_LINE = [
    Mistake("", USAGE, ("COMMAND", "overstory --help")),
    Mistake("plann net", USAGE, ("'plann'", "near to it: plan", "overstory --help")),
    Mistake("scenario mak localized made", USAGE, ("'mak'", "near to it: make", "overstory scenario --help")),
    Mistake("compare net --planner spt", USAGE, ("required: --planners", "compare --help")),
    Mistake("compare net --planners spt mst", USAGE, ("'mst' is one argument too many", "compare --help")),
    Mistake("diff spt mst spt", USAGE, ("'spt' is one argument too many",)),
    Mistake("diff spt", USAGE, ("PLAN", "overstory diff --help")),
    Mistake("plan net --planner spt", USAGE, ("--output", "overstory plan --help")),
    Mistake("demo --events 1e6", USAGE, ("--events", "a whole number, not '1e6'")),
    Mistake("demo --seed -1", USAGE, ("--seed", "from 0 to")),
    Mistake("demo --folder net", USAGE, ("net exists, and is no earlier demo", "--folder")),
    Mistake("demo --folder net/scenario.toml/x", USAGE, ("scenario.toml is a file, not a folder", "another folder")),
    Mistake("demo --report net", USAGE, ("cannot write net: it is a folder", "give another file")),
]
MAKE = [
    Mistake("scenario make localised made", USAGE, ("'localised'", "near to it: localized", "sites")),
    Mistake("scenario make localized net", USAGE, ("net exists already", "give another name")),
    Mistake("scenario make localized made --broker 5", USAGE, ("--broker", "near to it: --brokers")),
    Mistake("scenario make localized made --topology transit-stubb", USAGE, ("did you mean 'transit-stub'?",)),
    Mistake("scenario make localized made --topology zoo:abilene", USAGE, ("near to it are zoo:Abilene",)),
    Mistake("scenario make localized made --topology zoo:Abilene --brokers 5", USAGE, ("11 brokers", "leave out")),
    Mistake("scenario make sites made --brokers 30", USAGE, ("no option --brokers", "make sites --help")),
    Mistake(DRAWN, USAGE, ("g.graphml is not there", "a GraphML file")),
    Mistake(DRAWN, FAILED, ("g.graphml has no graphs", "give a GraphML file with one"), {"g.graphml": "not XML"}),
    Mistake(DRAWN, FAILED, ("g.graphml has no nodes", "at least one broker"), graph("")),
    Mistake(DRAWN, FAILED, ("from a to b has the price -3", "from 0 up"), graph("ab", "a-b:-3")),
    Mistake(DRAWN, FAILED, ("g.graphml", "Failed conversion to 'float'"), graph("ab", "a-b:cheap")),
    Mistake(DRAWN, FAILED, ("g.graphml is not connected", "2 parts of 2, 1", "link them"), graph("abc", "a-b")),
    Mistake(
        DRAWN,
        FAILED,
        ("g.graphml is directed", "2 links that go one way only", "add the edges back"),
        graph("abc", "a-b", "b-c", kind="directed"),
    ),
    Mistake(DRAWN, FAILED, ("an edge to 'z'", "add the node or leave out"), graph("ab", "a-b", "b-z")),
]
FOLDERS = [
    Mistake("scenario show nowhere", FAILED, ("nowhere is not a scenario", "no such folder", "scenario make")),
    Mistake("scenario show spt", FAILED, ("spt is not a scenario: it is the folder of a plan", "scenario make")),
    Mistake("scenario show net/scenario.toml", FAILED, ("it is a file, not a folder",)),
    Mistake("scenario show empty", FAILED, ("empty is not a scenario: it has no scenario.toml",), {"empty": FOLDER}),
    Mistake("score net net", FAILED, ("net is not a plan: it is the folder of a scenario", "overstory plan")),
    Mistake("explain nowhere", FAILED, ("nowhere is not a plan", "no such folder", "overstory plan")),
    Mistake("diff spt spt/plan.json", FAILED, ("spt/plan.json is not a plan: it is a file",)),
    Mistake("explain spt --scenario spt", FAILED, ("spt is not a scenario: it is the folder of a plan",)),
    Mistake(
        "scenario show net",
        FAILED,
        ("net has 1 problem", "format_version: it is 9, and this overstory reads 1", "the version that made"),
        settings("format_version = 1", "format_version = 9"),
    ),
    Mistake(
        "scenario show net", FAILED, ("scenario.toml", "prices.core", "docs/"), settings("core = 1.0", 'core = "much"')
    ),
    Mistake(
        "scenario show net",
        FAILED,
        ("scenario.toml", "limits", "dely", "docs/scenarios.md"),
        settings("[limits]", "[limits]\ndely = 3"),
    ),
    Mistake("scenario show net", FAILED, ("scenario.toml", "invalid value"), {"net/scenario.toml": "name = "}),
    Mistake(
        "plan net --planner spt -o made",
        FAILED,
        ("net has 2 problems", "links: links.parquet is not a Parquet file", "clients.parquet is missing"),
        {"net/links.parquet": b"nonsense", "net/clients.parquet": None},
    ),
    Mistake("scenario show net", FAILED, ("events.parquet is not a Parquet file",), {"net/events.parquet": cut}),
    Mistake(
        "scenario show net",
        FAILED,
        ("brokers column id: the column is missing",),
        {"net/brokers.parquet": lambda _: with_column("n", 1)(written(pa.table({"n": [1]})))},
    ),
    Mistake("score net spt", FAILED, ("plan.json: input data was truncated",), {"spt/plan.json": "{"}),
    Mistake(
        "score net spt",
        FAILED,
        ("plan.json", "format_version: it is 7, and this overstory reads 1"),
        header('"format_version": 1', '"format_version": 7'),
    ),
    Mistake("explain spt", FAILED, ("spt has 1 problem", "trees.parquet is missing"), {"spt/trees.parquet": None}),
    Mistake("score other spt", STALE, ("the plan spt was not made for the scenario other", "plan again")),
    Mistake(
        "score net spt", STALE, ("not made for the scenario net as it is now",), settings("core = 1.0", "core = 2.0")
    ),
    Mistake("diff spt mst --scenario other", STALE, ("spt was not made for the scenario other", "plan again")),
    Mistake("plan other --planner spt -o made --base spt", STALE, ("not made for the scenario other",)),
    Mistake("bursts other --plan spt", STALE, ("not made for the scenario other",)),
]
PLANS = [
    Mistake("plan net --planner tree_search -o made", USAGE, ("'tree_search'", "near to it: tree-search")),
    Mistake("plan net --planner best -o made", USAGE, ("no planner 'best'", "there are", "tree-search")),
    Mistake("plan net --planner spt --problem overlay -o made", USAGE, ("--problem overlay", "spt solves another")),
    Mistake("plan net --problem tres -o made", USAGE, ("no problem 'tres'", "there are trees")),
    Mistake("plan net --planner opt -o made", USAGE, ("opt makes no plan", "overstory compare")),
    Mistake("plan net --planner spt -o made --set depth=3", USAGE, ("no parameter 'depth'", "it has root")),
    Mistake("plan net --planner spt -o made --set root", USAGE, ("'root'", "key=value")),
    Mistake("plan net --planner spt -o made --set root=99", USAGE, ("root=99", "the id of a broker"), spark=True),
    Mistake("plan net --planner mult -o made --set trials=0", USAGE, ("trials=0", "from 1 on")),
    Mistake("plan net --planner mult -o made --set trees=many", USAGE, ("trees=many", "auto or a number from 1 on")),
    Mistake("plan net --planner hybrid -o made --set groups=0", USAGE, ("groups=0", "from 1 on")),
    Mistake("plan net --planner semcast -o made --set channels=-1", USAGE, ("channels=-1", "auto or a number")),
    Mistake("plan net --planner spt -o spt", USAGE, ("spt exists already", "give another name")),
    Mistake("plan net --planner spt -o net/scenario.toml/x", USAGE, ("is a file, not a folder", "another folder")),
    Mistake("plan net --planner spt -o made --report net", USAGE, ("cannot write net: it is a folder",)),
    Mistake("plan net --planner spt -o made --seed x", USAGE, ("--seed", "a whole number, not 'x'")),
    Mistake("plan net --planner spt -o made --bound-effort -5", USAGE, ("--bound-effort", "from 0")),
    Mistake("score net spt --report net/scenario.toml/x.html", USAGE, ("is a file, not a folder", "another file")),
    Mistake("compare net --planners ,", USAGE, ("--planners: name at least one", "tree-search")),
    Mistake("compare net --planners spt,mstt", USAGE, ("'mstt'", "near to it: mst")),
    Mistake("compare net --planners spt,spt", USAGE, ("'spt' is named twice",)),
    Mistake("compare net --planners spt --set depth=2", USAGE, ("none of these", "'depth'", "they have root")),
    Mistake("compare net --planners spt,opt --set effort=luck", USAGE, ("effort=luck", "route, plan, best")),
    Mistake("compare net --planners spt --report net", USAGE, ("cannot write net: it is a folder",)),
    Mistake("bursts net --top 0", USAGE, ("--top", "from 1")),
    Mistake("bursts net --threshold 7", USAGE, ("--threshold", "at least 0 and at most 1, not 7")),
    Mistake(
        "plan net --planner spt -o made",
        INFEASIBLE,
        ("the plan of spt exceeds a limit", "delay"),
        settings("[limits]", "[limits]\ndelay = 0.5"),
        spark=True,
    ),
    Mistake(
        "scenario show net",
        FAILED,
        ("60 problems", "subscriptions row 1 column filter", "but the filter ends", "55 more rows"),
        {"net/subscriptions.parquet": with_column("filter", "a >")},
        spark=True,
    ),
    Mistake(
        "compare net --planners spt",
        FAILED,
        ("events", "$publisher", "999, and there is no such client"),
        {"net/events.parquet": with_column("$publisher", 999)},
        spark=True,
    ),
    Mistake(
        "plan net --planner spt -o made --no-cache --master spark://127.0.0.1:9",
        FAILED,
        ("no Spark master answers at --master spark://127.0.0.1:9", "is it running"),
        spark=True,
    ),
]
LOGS = [
    Mistake(IMPORT, USAGE, ("log.csv is not there", "ends in .csv"), {"net.csv": NET}),
    Mistake(IMPORT.replace("log.csv", "log.xlsx"), USAGE, ("no ending that is known", ".jsonl"), also("log.xlsx", "")),
    Mistake(IMPORT.replace("log.csv", "'logs/*.csv'"), USAGE, ("no file is called logs/*.csv",), CSV),
    Mistake(IMPORT.replace("log.csv", "logs"), USAGE, ("the folder logs has no files",), also("logs/a.txt", "x")),
    Mistake(
        IMPORT.replace("log.csv", "logs"),
        USAGE,
        ("files of several kinds", "a.csv and b.jsonl"),
        {**CSV, "logs/a.csv": LOG, "logs/b.jsonl": "{}"},
    ),
    Mistake(
        IMPORT.replace("log.csv", "logs"),
        FAILED,
        ("logs/b.csv has other columns than logs/a.csv",),
        {**CSV, "logs/a.csv": LOG, "logs/b.csv": "x\n1\n"},
    ),
    Mistake(IMPORT.replace("log.csv", "net"), USAGE, ("the folder net is a scenario", "the log that"), CSV),
    Mistake(IMPORT.replace("made", "net"), USAGE, ("net exists already", "give another name"), CSV),
    Mistake(IMPORT, FAILED, ("log.csv has no header", "on the first line"), log("")),
    Mistake(IMPORT, FAILED, ("log.csv has no events in it", "at least one"), log("n,site,temp\n")),
    Mistake(IMPORT, FAILED, ("log.csv has no header: '1' is not the name of a column",), log("1,oslo\n2,bern\n")),
    Mistake(IMPORT, FAILED, ("log.csv has one column, 'n;site'", "as a comma"), log("n;site\n1;oslo\n")),
    Mistake(IMPORT, FAILED, ("log.csv has two columns 'n'", "rename one"), log("n,site,n\n1,oslo,2\n")),
    Mistake(IMPORT, USAGE, ("'N' and 'n' of log.csv differ in nothing but case", "rename"), log("N,n\n1,2\n")),
    Mistake(IMPORT, USAGE, ("column '$id' of log.csv begins with $", "rename"), log("$id\n1\n")),
    Mistake(IMPORT, FAILED, ("log.csv line 3: it has 3 values, and the header names 2",), log("n,s\n1,a\n2,b,c\n")),
    Mistake(IMPORT, FAILED, ("log.csv is not in UTF-8", "convert it"), log("name\nZürich\n".encode("latin-1"))),
    Mistake(
        IMPORT.replace("log.csv", "log.csv.gz"),
        FAILED,
        ("log.csv.gz cannot be read", "ended before"),
        {**CSV, "log.csv.gz": cut(gzip.compress(LOG.encode()))},
    ),
    Mistake(
        IMPORT.replace("log.csv", "log.parquet"),
        FAILED,
        ("log.parquet cannot be read", "not a parquet file"),
        {**CSV, "log.parquet": LOG},
    ),
    Mistake(JSON_IMPORT, FAILED, ("log.jsonl has no events in it",), lines("\n\n")),
    Mistake(JSON_IMPORT, FAILED, ("log.jsonl is one JSON list", "jq -c '.[]'"), lines('[{"n": 1}]')),
    Mistake(JSON_IMPORT, FAILED, ("over several lines", "jq -c ."), lines('{\n  "n": 1\n}\n')),
    Mistake(JSON_IMPORT, FAILED, ("log.jsonl line 2: it is not JSON", "column 9"), lines('{"n": 1}\n{"n": 1,}\n')),
    Mistake(JSON_IMPORT, FAILED, ("log.jsonl line 1: NaN is no number of JSON", "null"), lines('{"n": NaN}\n')),
    Mistake(JSON_IMPORT, USAGE, ("line 1: 'a' is an object", "--flatten", "a.b"), lines('{"a": {"b": 1}}\n')),
    Mistake(JSON_IMPORT, USAGE, ("line 1: 'a' is a list", "--columns"), lines('{"a": [1, 2]}\n')),
    Mistake(f"{IMPORT} --publisher Site", USAGE, ("log.csv has no column 'Site'", "near to it: site"), CSV),
    Mistake(f"{IMPORT} --time when", USAGE, ("no column 'when'", "it has n, site, temp"), CSV),
    Mistake(f"{IMPORT} --columns ,", USAGE, ("--columns: name at least one",), CSV),
    Mistake(f"{IMPORT} --columns n,tmp", USAGE, ("no column 'tmp'", "near to it: temp"), CSV),
    Mistake(f"{IMPORT} --type tmp=double", USAGE, ("no column 'tmp'", "near to it: temp"), CSV),
    Mistake(f"{IMPORT} --type temp=decimal", USAGE, ("no type 'decimal'", "double"), CSV),
    Mistake(f"{IMPORT} --time-unit ms", USAGE, ("--time-unit ms", "--time"), CSV),
    Mistake(f"{IMPORT} --time n --bytes n", USAGE, ("--time and --bytes name the same column 'n'",), CSV),
    Mistake(f"{IMPORT} --broker site", USAGE, ("--broker site", "--publisher"), CSV),
    Mistake(
        f"{IMPORT} --time site",
        FAILED,
        ("column 'site' of log.csv has to tell the time", "3 of 3 events", "line 2, which has 'oslo'"),
        CSV,
        spark=True,
    ),
    Mistake(
        f"{IMPORT} --type site=double",
        FAILED,
        ("column 'site' of log.csv", "'oslo' (2, first on line 2)", "--bad-values null", "--type site=string"),
        CSV,
        spark=True,
    ),
    Mistake(
        f"{JSON_IMPORT} --publisher sit", USAGE, ("near to it: site",), lines('{"site": "oslo"}\n' * 9), spark=True
    ),
    Mistake(
        f"{IMPORT} --publisher n --broker site",
        FAILED,
        ("column 'site' of log.csv", "no broker osslo", "near to it: oslo"),
        log("n,site\n1,osslo\n"),
        spark=True,
    ),
]
BESIDE_A_LOG = [
    Mistake(IMPORT, USAGE, ("net.csv is not there",), {"log.csv": LOG}),
    Mistake(IMPORT.replace("net.csv", "zoo:Abiline"), USAGE, ("zoo:Abiline", "near to it are zoo:Abilene"), CSV),
    Mistake(IMPORT.replace("net.csv", "spt"), FAILED, ("spt has no overlay", "brokers.parquet is missing"), CSV),
    Mistake(IMPORT, FAILED, ("net.csv has no column 'source'", "it has from, to"), links("from,to\na,b\n")),
    Mistake(IMPORT, FAILED, ("net.csv has no column 'source'", "near to it: Source"), links("Source,target\na,b\n")),
    Mistake(IMPORT, FAILED, ("net.csv has no rows", "source and target"), links("source,target\n")),
    Mistake(IMPORT, FAILED, ("net.csv row 2 column target: has no value",), links("source,target\na,b\nb,\n")),
    Mistake(
        IMPORT,
        FAILED,
        ("net.csv row 1 column price: 'cheap' is not a number",),
        links("source,target,price\na,b,cheap\n"),
    ),
    Mistake(
        IMPORT,
        FAILED,
        ("net.csv row 1 column price: -1.0 is not a number from 0 up",),
        links("source,target,price\na,b,-1\n"),
    ),
    Mistake(
        IMPORT,
        FAILED,
        ("net.csv", "not connected: 2 brokers cannot be reached from a", "(c, d)", "add links"),
        links("source,target\na,b\nc,d\n"),
    ),
    Mistake(f"{IMPORT} --brokers 9", USAGE, ("net.csv has 3 brokers, not 9", "leave out"), CSV),
    Mistake(f"{IMPORT} --subscriptions none.txt", USAGE, ("--subscriptions none.txt", "nor a file that is there"), CSV),
    Mistake(f"{IMPORT} --subscriptions 1e3", USAGE, ("--subscriptions 1e3", "a whole number"), CSV),
    Mistake(f"{IMPORT} --subscriptions 99999999999999", USAGE, ("--subscriptions", "to 10,000,000"), CSV),
    Mistake(
        f"{IMPORT} --subscriptions f.txt", FAILED, ("f.txt has no filters", "one on each line"), also("f.txt", "# x\n")
    ),
    Mistake(
        f"{IMPORT} --subscriptions f.txt",
        FAILED,
        ("f.txt has 2 problems", "line 2: filter: expected a value", "line 3", "temp >", "equality is one ="),
        also("f.txt", "temp > 3\ntemp >\noslo: temp == 3\n"),
    ),
    Mistake(
        f"{IMPORT} --subscriptions f.csv",
        FAILED,
        ("f.csv row 2 column filter", "straight single quotes"),
        also("f.csv", "client,filter\noslo,temp > 3\nbern,site = ‘oslo’\n"),
    ),
    Mistake(
        f"{IMPORT} --subscriptions f.csv",
        FAILED,
        ("f.csv has no column 'client'", "client and filter"),
        also("f.csv", "who,filter\noslo,temp > 3\n"),
    ),
    Mistake(
        f"{IMPORT} --subscriptions f.csv",
        FAILED,
        ("f.csv row 1 column broker: there is no broker osslo; near to it: oslo",),
        also("f.csv", "client,filter,broker\nme,temp > 3,osslo\n"),
    ),
    Mistake(
        f"{IMPORT} --subscriptions f.csv",
        FAILED,
        ("f.csv line 2: it has 3 values", "in double quotes"),
        also("f.csv", "client,filter\nme,site IN ('a','b')\n"),
    ),
    Mistake(
        f"{IMPORT} --subscriptions f.csv",
        FAILED,
        ("f.csv row 1 column no_local: 'maybe' is not true or false",),
        also("f.csv", "client,filter,no_local\nme,temp > 3,maybe\n"),
    ),
    Mistake(
        f"{IMPORT} --subscriptions f.jsonl",
        FAILED,
        ("f.jsonl line 2: it is not JSON",),
        also("f.jsonl", '{"client": "me", "filter": "temp > 3"}\n{"client": "me"\n'),
    ),
    Mistake(
        f"{IMPORT} --attach at.csv",
        FAILED,
        ("at.csv row 1 column broker: there is no broker osslo; near to it: oslo",),
        also("at.csv", "client,broker\nme,osslo\n"),
    ),
    Mistake(
        f"{IMPORT} --attach at.csv",
        FAILED,
        ("at.csv row 2 column broker: me has another one above",),
        also("at.csv", "client,broker\nme,oslo\nme,bern\n"),
    ),
    Mistake(
        f"{IMPORT} --attach at.csv",
        FAILED,
        ("at.csv has no column 'broker'", "it has client, place"),
        also("at.csv", "client,place\nme,oslo\n"),
    ),
    Mistake(f"{IMPORT} --attach at.txt", USAGE, ("at.txt", "ends in .csv"), also("at.txt", "me oslo")),
    Mistake(
        f"{IMPORT} --subscriptions f.txt",
        OK,
        ("1 links from a broker to itself", "1 links are there before", "no event has 'tmp'; near to it: temp"),
        {**links(f"{NET}oslo,oslo,1\noslo,bern,9\n"), "f.txt": "tmp > 3\n"},
        spark=True,
        makes=("made",),
    ),
]
LAB = [
    Mistake("lab run trees-costs", USAGE, ("'trees-costs'", "near to it: trees-cost")),
    Mistake("lab run trees-cost --set x=1", USAGE, ("trees-cost has no parameter 'x'",)),
    Mistake("lab run trees-cost --only planet=7", USAGE, ("no setting 'planet'", "brokers")),
    Mistake("lab run steinlib", USAGE, ("steinlib must be told 'dir'", "--set dir=")),
    Mistake("lab run steinlib --set dir=nowhere", USAGE, ("dir=nowhere: there is no such folder", "files of SteinLib")),
    Mistake("lab run trees-cost --store net/scenario.toml", USAGE, ("cannot write", "give another --store")),
    Mistake("lab report", USAGE, ("there is no store overstory-lab", "lab run NAME")),
    Mistake("lab report made.html --store net", USAGE, ("nothing has been run into the store net", "lab run NAME")),
]
FILTERS = [
    Mistake("filter evl 'a > 1'", USAGE, ("'evl'", "near to it: eval")),
    Mistake("filter eval 'a >'", FAILED, ("expected a value, but the filter ends (character 4)", "^")),
    Mistake("filter eval ''", FAILED, ("the filter is empty", "TRUE matches every event")),
    Mistake("filter eval 'a == 1'", FAILED, ("expected a value (character 4)", "equality is one =")),
    Mistake("filter eval 'a = 1 && b = 2'", FAILED, ("expected AND, OR", "write AND")),
    Mistake("""filter eval "a = 'x" """, FAILED, ("this string is never closed (character 5)",)),
    Mistake("filter explain '[a,>,1]'", FAILED, ("'[' is not expected here", "the dialect padres")),
    Mistake("filter explain 'a > 1' --dialect padres", FAILED, ("expected '['", "the dialect sql")),
    Mistake("filter covers 'a > 1'", USAGE, ("OTHER", "filter covers --help")),
    Mistake("filter covers 'a > 1' 'a >< 1'", FAILED, ("expected a value (character 4)", "a >< 1")),
    Mistake("filter eval 'a > 1' '{a: 1}'", FAILED, ("the event is not JSON", 'write it as {"name": value')),
    Mistake("filter eval 'a > 1' '[1]'", FAILED, ("not a JSON object", 'write it as {"name": value')),
    Mistake("filter eval 'a > 1' '{}' --events e.jsonl", USAGE, ("give one of EVENT, --events",), {"e.jsonl": "{}"}),
    Mistake("filter eval 'a > 1' --events e.jsonl", USAGE, ("cannot read e.jsonl", "give the path")),
    Mistake("filter eval 'a > 1' --property a", USAGE, ("--property", "NAME=TEXT")),
    Mistake("filter eval 'a > 1' --dialect mysql", USAGE, ("'mysql'", "near to it: sql")),
    Mistake(
        """filter eval 'status = "fail"' '{"status": "fail"}'""",
        OK,
        ("unknown", "the event has no 'fail'", "a string stands in single quotes"),
    ),
    Mistake("""filter eval 'tmep > 3' '{"temp": 4}'""", OK, ("unknown", "no 'tmep'", "near to it: temp")),
    Mistake("""filter eval 'a.b > 3' '{"a": {"b": 4}}'""", OK, ("unknown", "'a' is an object", "with dots")),
    Mistake("filter bench f.txt --events e.jsonl", USAGE, ("cannot read f.txt",), {"e.jsonl": "{}"}),
    Mistake("filter bench f.txt --events e.jsonl", USAGE, ("no events in e.jsonl",), {"f.txt": "a > 1", "e.jsonl": ""}),
    Mistake(
        "filter bench f.txt --events e.jsonl",
        FAILED,
        ("line 2 of f.txt", "the filter ends"),
        {"f.txt": "a > 1\na >\n", "e.jsonl": "{}"},
    ),
    Mistake(
        "filter bench f.txt --events e.csv",
        FAILED,
        ("line 1 of e.csv is not JSON", "write it as"),
        {"f.txt": "a > 1", "e.csv": "a,b\n1,2\n"},
    ),
    Mistake(
        "filter bench f.txt.gz --events e.jsonl",
        USAGE,
        ("f.txt.gz is not UTF-8", "unzip it"),
        {"f.txt.gz": gzip.compress(b"a > 1"), "e.jsonl": "{}"},
    ),
]
MISTAKES = [*COMMAND_LINE, *MAKE, *FOLDERS, *PLANS, *LOGS, *BESIDE_A_LOG, *LAB, *FILTERS]


def written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scenarios, and two plans for the first, for all mistakes to start from."""
    place = tmp_path_factory.mktemp("mistakes")
    for name, brokers in (("net", 12), ("other", 10)):
        size = f"--brokers {brokers} --keywords 15 --events 300 --locality 0.3 --seed 1"
        assert overstory(place, "scenario", "make", "localized", name, *size.split()).code == 0
    scenario = read_scenario(place / "net")
    with Pipeline() as pipeline:
        for planner in ("spt", "mst"):
            make_plan(planner, scenario, pipeline, {}).write(place / planner)
    return place


def prepared(made: Path, place: Path, files: Mapping[str, object]) -> Path:
    shutil.copytree(made, place)
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(exist_ok=True)
        if content is None:
            path.unlink()
        elif content is FOLDER:
            path.mkdir()
        elif callable(content):
            path.write_bytes(content(path.read_bytes() if path.exists() else b""))
        else:
            path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return place


def everything_in(place: Path) -> set[str]:
    """All but what is kept for the next command."""
    every = (path.relative_to(place) for path in place.rglob("*"))
    return {str(path) for path in every if ".cache" not in path.parts}


def no_spark(*_: object) -> None:
    raise AssertionError("Spark is started")


def run(made: Path, place: Path, mistake: Mistake, monkeypatch: pytest.MonkeyPatch, *more: str) -> Result:
    """Also checks what there is in the folder before and after."""
    if not mistake.spark:
        monkeypatch.setattr(session, "start", no_spark)
    prepared(made, place, mistake.files)
    before = everything_in(place)
    result = overstory(place, *shlex.split(mistake.typed), *more)
    after = everything_in(place)
    assert {name for name in after - before if name.partition("/")[0] not in mistake.makes} == set()
    assert before - after == set()
    return result


def errors_in(text: str) -> list[str]:
    """The lines of standard error that tell no progress."""
    return [line for line in text.splitlines() if not line.endswith(" …")]


def number_of(mistake: Mistake) -> str:
    return f"{MISTAKES.index(mistake)}: {mistake.typed}"


@pytest.mark.parametrize("mistake", MISTAKES, ids=number_of)
def test_a_mistake_is_told(mistake: Mistake, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(made, tmp_path / "place", mistake, monkeypatch)
    assert result.code == mistake.code, result
    told = result.err if mistake.code else result.out
    for word in mistake.words:
        assert word in told
    assert "Traceback" not in result.err
    if mistake.code:
        assert_one_error(errors_in(result.err))


def assert_one_error(told: list[str]) -> None:
    """One line; and one for each problem, or two that point into a text."""
    first, *others = told
    assert first.startswith("overstory: ")
    problems = re.search(r"has ([\d,]+) problems?:$", first)
    if problems:
        assert 1 <= len(others) <= int(problems[1].replace(",", ""))
    elif others and not first.endswith(":"):
        assert len(others) == 2
        assert others[1].strip() == "^"
    assert all(line.startswith("  ") for line in others)


@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each.code and not each.spark], ids=number_of)
def test_a_program_is_told_as_well(
    mistake: Mistake, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(made, tmp_path / "place", mistake, monkeypatch, "--json")
    assert result.code == mistake.code, result
    (line,) = result.out.splitlines()
    assert json.loads(line)["error"]["problem"]
    assert errors_in(result.err) == []
    told = line.replace('\\"', '"')
    if '"problems"' in line:
        assert json.loads(line)["error"]["problems"]
        return
    for word in mistake.words:
        assert word in told or word == "^" or word in "".join(shlex.split(mistake.typed))


def test_there_are_many() -> None:
    assert len({(mistake.typed, str(mistake.files)) for mistake in MISTAKES}) == len(MISTAKES) >= 60
