"""PyTorch under ``warpsim exec``: operators of the GPU's tensors are computed by the CPU on the same bytes, kernels of the program
are simulated. Needs a PyTorch that was built for CUDA; what prepares it is tested without."""

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest

from warpsim.compat import triton
from warpsim.driver import library

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
    "statistics of norms": "x = torch.ones(2, 4, dtype=torch.float16, device='cuda'); y, mean, _ = torch.native_layer_norm(x, (4,), None, None, 1e-5); "
    "assert (y.dtype, mean.dtype) == (torch.float16, torch.float32)",
    "graphs": "x = torch.ones(3, device='cuda'); torch.cuda.synchronize(); g = torch.cuda.CUDAGraph()\n"
    "with torch.cuda.graph(g):\n  y = x * 2; x += 1\nassert x.tolist() == [1, 1, 1]\ng.replay(); g.replay()\n"
    "assert x.tolist() == [3, 3, 3] and y.tolist() == [4, 4, 4]",
    "what the CPU lacks": "x = torch.ones(3, device='cuda')\ntry: torch.ops.aten._masked_scale(x, x.byte(), 2.0)\n"
    "except NotImplementedError as e: assert 'aten::_masked_scale: PyTorch has no kernel' in str(e), e\nelse: assert False",
}


@pytest.mark.skipif(not TORCH, reason="PyTorch for CUDA is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(tmp_path, name):
    """Values are PyTorch's; the end of the program says that they were not simulated."""
    _, said = run(tmp_path, PROGRAMS[name])

    assert "warpsim: PyTorch's CPU kernels computed" in said


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
    monkeypatch.setattr(started, "compat", lambda client: types.SimpleNamespace(enable=lambda: enabled.append(client)))
    started.prepare(torch)
    assert enabled == []
    waiting[0]()

    assert enabled == ["torch"]


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
