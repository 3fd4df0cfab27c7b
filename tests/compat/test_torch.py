"""PyTorch under ``warpsim exec``: operators of the GPU's tensors are computed by the CPU on the same bytes, kernels of the program
are simulated. Needs a PyTorch that was built for CUDA; what prepares it is tested without."""

import importlib.util
import json
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest

from warpsim.compat import triton
from warpsim.compat.torch import enable
from warpsim.driver import library
from warpsim.driver.results import Report
from warpsim.errors import LaunchError

TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("nvidia") is not None


def run(tmp_path, text):
    """What a program prints on the simulated GPU."""
    (tmp_path / "program.py").write_text("import torch\n" + text)
    command = [sys.executable, "-m", "warpsim", "exec", "--", sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


PROGRAMS = {
    "backward": "x = torch.ones(4, 8, device='cuda', requires_grad=True); (x[::2, 1:].t() * 3).sum().backward(); "
    "g = x.grad; assert g.is_cuda and g.sum().item() == 3 * 14 and g[1].sum().item() == 0",
    "in place": "x = torch.zeros(6, device='cuda'); v = x[1::2]; v += 2; assert x.tolist() == [0, 2, 0, 2, 0, 2]",
    "out": "o = torch.empty(0, device='cuda'); x = torch.arange(3., device='cuda'); torch.add(x, 1, out=o); assert o.tolist() == [1, 2, 3]",
    "sizes that depend on values": "x = torch.tensor([1, 2, 1], device='cuda'); assert torch.unique(x).tolist() == [1, 2] and "
    "torch.nonzero(x == 1).flatten().tolist() == [0, 2]",
    "seeds": "torch.manual_seed(3); a = torch.rand(5, device='cuda'); b = torch.rand(5, device='cuda'); torch.manual_seed(3); "
    "assert torch.equal(a, torch.rand(5, device='cuda')) and not torch.equal(a, b) and torch.equal(b, torch.rand(5, device='cuda'))",
    "a library's kernels": "c = torch.nn.Conv2d(3, 4, 3).cuda(); x = torch.randn(1, 3, 5, 5); "
    "torch.testing.assert_close(c(x.cuda()).cpu(), c.cpu()(x))",
    "sums of 16 bits": "x = torch.full((4096, 1), 0.1, dtype=torch.float16, device='cuda'); "
    "assert abs(x.cumsum(0)[-1].item() - 409.5) < 0.5",
    "sums of 16 bits, where they are asked to go": "x = torch.full((4,), 0.5, dtype=torch.float16, device='cuda'); y = torch.empty_like(x); "
    "torch.cumsum(x, 0, out=y); assert y.tolist() == [0.5, 1, 1.5, 2]; assert x.cumsum(0, dtype=torch.float32).dtype == torch.float32",
    "sums of long rows of 32 bits": "x = torch.randn(1, 32000, device='cuda', requires_grad=True); y = x.detach().cpu().double().requires_grad_()\n"
    "for v in x, y:\n  torch.nn.functional.cross_entropy(v, torch.tensor([5], device=v.device), label_smoothing=0.2).backward()\n"
    "assert torch.allclose(x.grad.cpu().double(), y.grad, rtol=1e-6, atol=1e-8)",
    "statistics of norms": "x = torch.ones(2, 4, dtype=torch.float16, device='cuda'); y, mean, _ = torch.native_layer_norm(x, (4,), None, None, 1e-5); "
    "assert (y.dtype, mean.dtype) == (torch.float16, torch.float32)",
    "graphs": "x = torch.ones(3, device='cuda'); torch.cuda.synchronize(); g = torch.cuda.CUDAGraph()\n"
    "with torch.cuda.graph(g):\n  y = x * 2; x += 1\nassert x.tolist() == [1, 1, 1]\ng.replay(); g.replay()\n"
    "assert x.tolist() == [3, 3, 3] and y.tolist() == [4, 4, 4]",
    "sums of 16 bits, in place and with a wider result": "x = torch.full((4096,), 0.1, dtype=torch.bfloat16, device='cuda'); "
    "y = torch.empty(4096, device='cuda'); torch.cumsum(x, 0, out=y); x.cumsum_(0); assert abs(x[-1].item() - 410) <= 2 and "
    "abs(y[-1].item() - 410) < 1",
    "attention that names its kernel": "from torch.nn.attention import sdpa_kernel, SDPBackend\n"
    "q, k, v = (torch.randn(2, 2, 5, 8, dtype=torch.float16, device='cuda', requires_grad=True) for _ in range(3))\n"
    "plain = torch.softmax(q.float() @ k.float().mT * 8 ** -.5 + torch.full((5, 5), -torch.inf, device='cuda').triu(1), -1) @ v.float()\n"
    "wanted = torch.autograd.grad(plain.square().sum(), (q, k, v))\n"
    "for backend in SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION:\n"
    "  with sdpa_kernel(backend):\n    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
    "  torch.testing.assert_close(y.float(), plain, rtol=2e-3, atol=2e-3)\n"
    "  for g, w in zip(torch.autograd.grad(y.float().square().sum(), (q, k, v)), wanted):\n"
    "    torch.testing.assert_close(g, w, rtol=1e-2, atol=1e-2)",
    "recurrent cells and their gradients": "for kind in torch.nn.LSTM, torch.nn.GRU:\n  m = kind(3, 4, 2); x = torch.randn(5, 2, 3)\n"
    "  m(x)[0].sum().backward(); wanted = [p.grad.clone() for p in m.parameters()]; m.zero_grad(); m.cuda()(x.cuda())[0].sum().backward()\n"
    "  for p, w in zip(m.parameters(), wanted): torch.testing.assert_close(p.grad.cpu(), w)",
    "norms that CUDA fuses": "m = torch.nn.RMSNorm(8); x = torch.randn(3, 8, requires_grad=True); m(x).square().sum().backward(); w = m.weight.grad.clone()\n"
    "m.zero_grad(); m.cuda()(x.cuda()).square().sum().backward(); torch.testing.assert_close(m.weight.grad.cpu(), w)",
    "another output type": "x = torch.full((2, 4096), 1.5, dtype=torch.float16, device='cuda'); "
    "assert torch.mm(x, x.t(), out_dtype=torch.float32).tolist() == [[9216.0] * 2] * 2",
    "softmax of 16 bits": "x = torch.randn(3, 500, device='cuda', dtype=torch.float16, requires_grad=True); y = torch.softmax(x, 1, dtype=torch.float32); "
    "y.square().sum().backward(); assert (y.dtype, x.grad.dtype) == (torch.float32, torch.float16); torch.testing.assert_close(y, x.float().softmax(1))\n"
    "x = x.detach().bfloat16().requires_grad_(); t = torch.arange(3, device='cuda'); loss = torch.nn.functional.cross_entropy(x, t, reduction='sum')\n"
    "wide = x.detach().double().cpu(); kept = wide.log_softmax(1).bfloat16().double(); assert abs(loss.item() + kept[range(3), range(3)].sum().item()) < .1\n"
    "loss.backward(); kept = kept.exp(); kept[range(3), range(3)] -= 1; torch.testing.assert_close(x.grad.cpu().double(), kept, rtol=.005, atol=1e-6)",
    "numbers where the schema has tensors": "x = torch.tensor([6, 5], device='cuda'); assert (x % 4).tolist() == [2, 1] and (x & 3).tolist() == [2, 1] and "
    "(7 % x).tolist() == [1, 2] and (x.to(torch.uint8) & 3).dtype == torch.uint8; x &= 4; assert x.tolist() == [4, 4]",
    "conjugates are lazy": "x = torch.tensor([[1 + 2j, 3 - 4j]], device='cuda'); y = x.conj(); assert y.is_conj() and y.clone().tolist() == [[1 - 2j, 3 + 4j]]\n"
    "assert (y * 1j).tolist() == [[2 + 1j, -4 + 3j]] and (y.imag + 0).tolist() == [[-2, 4]] and (y @ x.t()).tolist() == [[5 + 25 + 0j]]\n"
    "x.requires_grad_(); (x * x.conj()).real.sum().backward(); assert x.grad.tolist() == [[2 + 4j, 6 - 8j]]",
    "results keep the order of their arguments": "x = torch.ones(2, 3, device='cuda').t(); assert torch.polar(x, x).stride() == (1, 3)",
    "a kernel that only waits": "torch.zeros(1, device='cuda'); torch.cuda._sleep(1000)",
    "torch.compile leaves the simulator alone": "import torch._dynamo.convert_frame as c; compile = c._compile; traced = []\n"
    "c._compile = lambda code, *args, **kwargs: [traced.append(code.co_filename), compile(code, *args, **kwargs)][1]\n"
    "@torch.compile(backend='eager')\ndef f(x):\n  try:\n    torch._dynamo.graph_break(); x += 1; torch.cuda.mem_get_info(); return x\n  finally: pass\n"
    "assert f(torch.zeros(2, device='cuda')).tolist() == [1, 1]; assert traced and not [name for name in traced if '/warpsim/' in name], traced",
    "what the CPU lacks": "x = torch.ones(3, device='cuda')\ntry: torch.ops.aten._masked_scale(x, x.byte(), 2.0)\n"
    "except NotImplementedError as e: assert 'aten::_masked_scale: PyTorch has no kernel' in str(e), e\nelse: assert False",
}


@pytest.mark.skipif(not TORCH, reason="PyTorch for CUDA is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(tmp_path, name):
    """Values are PyTorch's; the end of the program says that they were not simulated."""
    _, said = run(tmp_path, PROGRAMS[name])

    assert "warpsim: PyTorch's CPU kernels computed" in said


@pytest.mark.skipif(not TORCH, reason="PyTorch for CUDA is not installed")
def test_a_session_of_its_own(tmp_path):
    """Without ``warpsim exec``, a conftest.py can lead PyTorch to the simulated GPU; the report lists what was not simulated."""
    (tmp_path / "program.py").write_text(
        "import warpsim.compat.torch\nwarpsim.compat.torch.enable('sm_80', report='report')\nimport torch\n"
        "assert 'A100' in torch.cuda.get_device_name(); x = torch.arange(4., device='cuda'); x += 1\n"
        "add = torch.cuda._compile_kernel('extern \"C\" __global__ void add(float *x) { x[threadIdx.x] += 1; }', 'add')\n"
        "add((1, 1, 1), (4, 1, 1), (x,)); assert x.tolist() == [2, 3, 4, 5]"
    )
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert next(r for r in records if r["rule"] == "not-simulated")["operators"]["add_.Tensor"] == 1


def test_enable_comes_before_pytorch(monkeypatch):
    """Libraries of NVIDIA's that are loaded cannot be replaced; ``warpsim exec`` has done all there is to do."""
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    monkeypatch.setenv("WARPSIM_CUDART", "there")
    enable()
    monkeypatch.delenv("WARPSIM_CUDART")
    with pytest.raises(LaunchError, match="before the first import of torch"):
        enable()


def test_the_report_lists_operators(tmp_path, capsys):
    """All of them in the report, the most frequent in the line at the end."""
    report = Report(str(tmp_path / "report"))
    operators = Counter({f"op{i}": i for i in range(1, 11)})
    report.not_simulated(operators)

    record = json.loads((tmp_path / "report").read_text())
    assert (record["rule"], record["severity"], record["operators"]) == ("not-simulated", "note", dict(operators))
    assert "55 operators, not simulated: op10 10, op9 9," in (said := capsys.readouterr().err)
    assert said.endswith("op3 3 and 2 more\n")


def test_what_is_prepared(monkeypatch):
    """PyTorch is prepared when it begins to use CUDA, not when it is imported."""
    monkeypatch.delenv("WARPSIM_CUDART", raising=False)
    monkeypatch.setattr(sys, "path", [])
    path = Path(library.__file__).with_name("abi") / "start" / "sitecustomize.py"
    spec = importlib.util.spec_from_file_location("started", path)
    started = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(started)
    waiting, enabled = [], []
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(_lazy_call=waiting.append)
    monkeypatch.setattr(
        started, "compat", lambda client: types.SimpleNamespace(register=lambda: enabled.append(client))
    )
    started.prepare(torch)
    assert enabled == []
    waiting[0]()

    assert enabled == ["aten"]


def test_triton_ends_at_ptx():
    """Its compiler gives PTX where it gave machine code, under keys of its own; its autotuner gets no times."""

    class CUDABackend:
        def hash(self):
            return "key"

        def make_cubin(self, *words):
            raise AssertionError

    class CudaDriver:
        pass

    triton.prepare(types.SimpleNamespace(CUDABackend=CUDABackend))
    triton.prepare(types.SimpleNamespace(CudaDriver=CudaDriver))

    assert CUDABackend().make_cubin(".version 8.0", {}, None, 90) == b".version 8.0"
    assert CUDABackend().hash() == "key-warpsim"
    time = CudaDriver().get_benchmarker()
    assert time(lambda: 1 / 0) < time(lambda: 1 / 0)
