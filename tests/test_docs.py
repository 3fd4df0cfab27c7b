"""What the documentation shows is what the program does."""

import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from docs.tools import address, blocks, broken, debugger, gallery, links, rules
from warpsim.cli import main
from warpsim.host.cases import run_case
from warpsim.host.options import EVERY
from warpsim.numerics import matrix

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


THEIRS = ()
"""Pages whose examples have tests of their own."""
PAGES = [Path("README.md"), *sorted(p.relative_to(ROOT) for p in DOCS.rglob("*.md") if p.name not in THEIRS)]

DEAR = {"testing.md", "proving.md", "debugging.md", "debugging-reference.md", "tracing.md", "add-an-instruction.md"}
"""Pages whose examples run seconds."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.long] * (p.name in DEAR), id=p.as_posix()) for p in PAGES],
)
def test_every_example(page):
    """Each code block of a page runs, and prints what stands below it."""
    assert blocks.run_page(ROOT / page) == []


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=[p.as_posix() for p in PAGES])
def test_every_long_example(page):
    """The same with the blocks that take longer."""
    if "<!-- long -->" in (ROOT / page).read_text(encoding="utf-8"):
        assert blocks.run_page(ROOT / page, long=True) == []


def test_rules_have_pages():
    """Every rule of a launch has a page, in the order of the groups."""
    named = [rule.name for rule in rules.rules()]

    assert len(set(named)) == len(named)
    assert set(named) >= EVERY


def test_examples_of_rules():
    """The faulty program of a page breaks its rule first, and the mended one none."""
    found = {rule.name: (rules.findings(rule.faulty), rules.findings(rule.mended)) for rule in rules.rules()}

    assert {name: faulty[0].rule for name, (faulty, _) in found.items()} == {name: name for name in found}
    assert {name: mended for name, (_, mended) in found.items() if mended} == {}


def test_pictures_of_rules():
    """A launch is drawn with a line for each step; a frame where the rule is broken, and a red end where nothing waits."""
    from docs.tools.pictures import ERROR

    drawn = {r.name: (r, rules.picture(r.faulty), rules.picture(r.mended)) for r in rules.rules() if r.name in DRAWN}

    for name, frames in DRAWN.items():
        rule, faulty, mended = drawn[name]
        steps = [len(example.text.splitlines()) + 1 for example in (rule.faulty, rule.mended)]  # and ret
        warps = int(rule.faulty.options.get("block", 32)) // 32
        assert [svg.count(" lanes</title>") for svg in (faulty, mended)] == [warps * n for n in steps], name
        assert (faulty.count(f'stroke="{ERROR}"'), mended.count(ERROR)) == (frames, 0), name
    assert f'fill="{ERROR}"' in drawn["async-smem-overwrite"][1]
    assert f'fill="{ERROR}"' not in drawn["async-read-early"][1], "it is waited for, too late"
    assert rules.picture(next(iter(rules.rules())).faulty) == "", "what is refused does not run"


DRAWN = {"wgmma-in-flight": 1, "async-smem-overwrite": 1, "async-read-early": 1, "race": 1}
"""Rules whose programs have a step in each line, and how many findings they give."""
GALLERY_RULES = {
    "hello": "out-of-bounds", "saxpy": "out-of-bounds", "histogram": "race", "reduce_shfl": "race", "softmax_rows": "race", "transpose": "race",
    "copy_pipeline": "async-read-early", "scan_lookback": "race", "cluster_reduce": "race", "mma_f16_gemm": "race", "gemm_sparse": "uninitialised",
    "flash_attention": "race", "gemm_tma": "async-smem-overwrite", "gemm_specialised": "proxy-fence", "stream_k": "async-smem-overwrite",
    "gemm_fp8_scaled": "wgmma-missing-fence", "gemm_multicast": "mbarrier", "attention_overlapped": "wgmma-in-flight", "softmax_triton": "race",
    "matmul_triton": "proxy-fence", "cancelled_launches": "race", "gemm_tcgen05": "mbarrier", "gemm_tcgen05_pair": "mbarrier", "gemm_mxfp8": "tcgen05",
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n,
            marks=[pytest.mark.long]
            * (n in ("attention_overlapped", "stream_k", "gemm_specialised", "flash_attention")),
        )
        for n in GALLERY_RULES
    ],
)
def test_a_bundled_program_without_a_line(tmp_path, name):
    """Each page of the gallery takes out a line, and the rule that it names finds it; every program has a page and a source."""
    target = broken.write(name, tmp_path)
    checks = f"none+{GALLERY_RULES[name]}"

    assert [f.rule for f in run_case(target, checks=checks, on_finding="collect").findings][:1] == [GALLERY_RULES[name]]
    assert set(gallery.ENTRIES) == set(broken.BREAKS) == {p.parent.name for p in ROOT.glob("programs/*/case.json")}
    assert [*ROOT.glob(f"programs/{name}/kernel.cu"), *ROOT.glob(f"programs/{name}/kernel.py")]


HOOK = """
import importlib.util, sys, types
spec = importlib.util.spec_from_file_location("hook", sys.argv[1])
hook, before = importlib.util.module_from_spec(spec), sys.path.copy()
spec.loader.exec_module(hook)
sys.path[:] = before
hook.generated = dict
hook.on_config(types.SimpleNamespace(nav=[], docs_dir="."))
import docs.tools.rules
print(docs.tools.rules.__file__)
"""


def test_the_hook_finds_its_modules(tmp_path):
    """As MkDocs loads it: from any folder, with the paths restored once it is loaded."""
    command = [sys.executable, "-I", "-c", HOOK, str(ROOT / "docs" / "tools" / "site.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert done.stdout.strip() == str(ROOT / "docs" / "tools" / "rules.py"), done.stderr


@pytest.mark.long
def test_site(tmp_path):
    """The site builds without a warning by the plain command, and no link in it is dead."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    plain = shutil.which("mkdocs", path=os.path.dirname(sys.executable))
    assert plain is not None
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [plain, "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    links = subprocess.run(
        [sys.executable, "-m", "docs.tools.links", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True
    )

    assert built.returncode == 0, built.stderr
    assert links.stdout == "0 dead links\n"


def test_links_that_leave(tmp_path):
    """Those that nobody answers are named with their page; our own are not asked for; what only refuses programs is no dead link."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response({"/there": 200, "/refused": 403}.get(self.path, 404))
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{server.server_port}"
        linked = [f"{here}/{name}" for name in ("there#part", "refused", "gone", "ours/page")]
        (tmp_path / "index.html").write_text("".join(f'<a href="{link}">x</a>' for link in linked))
        dead = links.dead_outside(tmp_path, (f"{here}/ours/",))
        server.shutdown()

    assert [line.split(": ")[:2] for line in dead] == [["index.html", f"{here}/gone"]]


def test_links_to_the_site(tmp_path):
    """Links to the site from the repository lead to pages of the build: to none of an empty one."""
    assert {line.split(": ")[0] for line in links.dead_to_the_site(tmp_path)} >= {"README.md", "docs/ci.md"}

    page = tmp_path / "field" / "index.html"
    page.parent.mkdir()
    page.touch()
    assert [line for line in links.dead_to_the_site(tmp_path) if line.endswith("/field/")] == []


def test_one_address(tmp_path):
    """Every file names the site and the repository of pyproject.toml; a move reaches them all."""
    assert address.strangers() == []
    for path in address.files():
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(ROOT))

    address.move("https://ptx.example/docs/", "https://github.com/someone/simulator", tmp_path)
    moved = {
        p: (tmp_path / p).read_text() for p in ("README.md", "docs/ci.md", "warpsim/report/rules.py", "CITATION.cff")
    }

    assert address.address(tmp_path)[:2] == ("https://ptx.example/docs/", "https://github.com/someone/simulator")
    assert "someone/simulator@v" in moved["docs/ci.md"]
    assert 'SITE = "https://ptx.example/docs/"' in moved["warpsim/report/rules.py"]
    assert "https://raw.githubusercontent.com/someone/simulator/" in moved["README.md"]
    assert [name for name, text in moved.items() if "warpsim/warpsim" in text or "warpsim.github.io" in text] == []


def test_a_stale_example(tmp_path):
    """An output that is not what the program prints is found, and rewritten on request."""
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 6\nprint(x * 7)\n```\n\n```text\n41\n```\n\n```console\n$ warpsim --version\n0\n```\n"
    )

    assert len(blocks.run_page(page)) == 2
    blocks.run_page(page, write=True)
    assert blocks.run_page(page) == []
    assert "```text\n42\n```\n\n```console\n$ warpsim --version\nwarpsim " in page.read_text()


def test_layouts_shows_a_true_output(capsys):
    """The table in docs/layouts.md is what the command prints."""
    page = (DOCS / "layouts.md").read_text()
    shown = re.search(r'\$ warpsim layout "(.*)" --operand A\n(.*?)```', page, re.DOTALL)
    assert main(["layout", shown[1], "--operand", "A"]) == 0

    assert capsys.readouterr().out.strip() == shown[2].strip()


def test_numerics_shows_the_table():
    """The parameters in docs/numerics.md are those of the code."""
    rows = re.findall(
        r"^\| sm_(\d+) \|[^|]*\| (\d+) \| (\d+) \| (-\d+) \| (-\d+) \|", (DOCS / "numerics.md").read_text(), re.M
    )
    shown = {int(sm): tuple(map(int, rest)) for sm, *rest in rows}
    units = {sm: (u.fraction, u.block_bytes, u.floor32, u.floor16) for sm, u in matrix.UNITS.items()}

    assert shown == units


def test_profiling_shows_a_true_output(capsys, monkeypatch):
    """The example and the table in docs/profiling.md are what the program prints, but for times."""
    monkeypatch.chdir(DOCS.parent)
    page = (DOCS / "profiling.md").read_text()
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out == shown

    def timeless(text):
        text = re.sub(r"\b\d+\.\d\d\b( s)?", "", text)
        lines = re.sub(r"^\S*[\\/]programs[\\/]", "programs/", text, flags=re.M).replace("\\", "/").splitlines()
        return [" ".join(line.split()) for line in lines]

    words, table = re.search(r"\$ warpsim (replay .* --profile)\n(.*?)```", page, re.DOTALL).groups()
    main(words.split())
    assert timeless(capsys.readouterr().out) == timeless(table)


def test_readme_is_short():
    """Whoever comes by reads it to its end."""
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") < 150


def test_picture(capsys):
    """The picture in the README is what the command draws."""
    assert main(["layout", "mma.m16n8k16...f16", "--operand", "A", "--format", "svg"]) == 0

    assert capsys.readouterr().out == (DOCS / "assets" / "fragment.svg").read_text(encoding="utf-8")


def test_counts_in_the_readme():
    """Opcodes and forms are as many as it says."""
    lines = (ROOT / "tests" / "data" / "oracles.txt").read_text(encoding="utf-8").splitlines()
    opcodes = {line.split("\t")[0] for line in lines}

    assert f"{len(opcodes)} opcodes in {len(lines)} forms" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_advice_stutters_nowhere():
    """No message says a word twice in a row, but for a type of C."""
    twice = re.compile(r"\b(?!long long)([a-z]{3,}) \1\b")
    source = (ROOT / "warpsim").rglob("*.py")

    assert [(p.name, m[0]) for p in source for m in twice.finditer(p.read_text(encoding="utf-8"))] == []


def test_commands_of_the_debugger():
    """The page has every command, list and setting of the prompt."""
    text = "".join(debugger.pages().values())

    assert {"break", "info cuda", "step-by"} <= set(re.findall(r"^`([a-z-]+(?: cuda)?)", text, re.M))
    assert text.count("\n:   ") > 80


def test_every_block_of_ptx_opens():
    """A page that shows a program says how it is launched, so that a door to the playground stands below it."""
    blocks_of = re.compile(r'^.*\n```\w+.*\.ptx"$|^.*\n```ptx.*', re.M)
    texts = {
        p: (ROOT / p).read_text(encoding="utf-8") for p in PAGES if p.name != "rules.md"
    }  # whose pages have doors of their own
    shown = [(page.name, m[0]) for page, text in texts.items() for m in blocks_of.finditer(text)]

    assert len(shown) > 8
    assert [found for found in shown if not re.match(r"<!-- launch: .* -->\n```ptx", found[1])] == []


@pytest.mark.long
def test_tutorial():
    """Each of its six pages ends with a picture, a door to the playground with a thing to try, and the way to the next."""
    from docs.tools import tutorial

    names = re.findall(r"- \d\. [^:]*: start/(\S+)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for number, (name, following) in enumerate(zip(names, [*names[1:], ""], strict=True), 1):
        text = tutorial.page((DOCS / "start" / name).read_text(encoding="utf-8"), DOCS / "start" / name)
        end = text.rpartition("## The picture")[2]
        assert f"age {number} of 6" in text
        assert "<svg" in end or "![" in end, name
        assert 'class="playground"' in end, name
        assert "**Try it:**" in end, name
        assert (f"]({following})" if following else "That was the tutorial") in end
        assert ("#e5534b" in end) == (number in (3, 5, 6)), "what is broken is red"
    assert number == 6
