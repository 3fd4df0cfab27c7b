"""A plugin for Triton's own tests (``-p triton_plugin``): the simulated GPU, with tensors of the CPU.

    cd CHECKOUT/python/test
    PYTHONPATH=WARPSIM/tests/clients WARPSIM_DEVICE=sm_90a python -m pytest -p triton_plugin --device cpu unit/language/test_core.py

Tensors that a test puts on ``cuda`` by name are the CPU's, too. ``TRITON_SAMPLE=N`` takes N tests, spread evenly over all
that were collected; ``TRITON_MISSING=MODULE:NAME,...`` gives modules names that a newer checkout imports from them.
"""

import importlib
import multiprocessing
import os
from types import SimpleNamespace

import pytest

import warpsim.compat.triton
from warpsim.driver import properties


def pytest_configure(config):
    """Here, and in the processes that tests start."""
    prepare()
    multiprocessing.get_context("forkserver").set_forkserver_preload(["triton_child"])


def prepare():
    """Make the simulated GPU the active one, and let what tests ask of torch.cuda be answered by it."""
    import torch

    driver = warpsim.compat.triton.install(max_seconds=float(os.environ.get("TRITON_SECONDS", "60")))
    torch.cuda.get_device_capability = driver.get_device_capability
    torch.cuda.get_device_name = lambda device=0: properties.name(driver.device.sm)
    torch.cuda.get_device_properties = lambda device=0: SimpleNamespace(
        name=properties.name(driver.device.sm),
        multi_processor_count=properties.model(driver.device.sm).sms,
        total_memory=properties.total_memory(),
        shared_memory_per_block_optin=driver.device.max_shared,
        major=driver.device.sm // 10,
        minor=driver.device.sm % 10,
    )
    torch.cuda.current_device = driver.get_current_device
    torch.cuda.synchronize = lambda *words: None
    torch.cuda.is_available = lambda: False
    torch.cuda.empty_cache = lambda: None
    torch.set_num_threads(1)
    import triton._internal_testing  # asks for the active driver

    triton._internal_testing.is_cpu = lambda: False  # forks of Triton have one
    on_cpu(torch)
    for item in filter(None, os.environ.get("TRITON_MISSING", "").split(",")):
        module, _, name = item.partition(":")
        setattr(importlib.import_module(module), name, None)


def on_cpu(torch):
    """Have PyTorch make tensors of the CPU where ``cuda`` is asked for."""
    from torch.overrides import TorchFunctionMode

    def here(value):
        return "cpu" if isinstance(value, (str, torch.device)) and str(value).startswith("cuda") else value

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            words = {name: here(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
            if isinstance(words.get("device"), int):  # torch.cuda.current_device()
                words["device"] = "cpu"
            if function is torch.Tensor.cuda:
                return args[0]
            return function(*(map(here, args) if function in (torch.Tensor.to, torch.empty_like) else args), **words)

    Mode().__enter__()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """A sample; the tests' modules that compare with cuBLAS, which is machine code, compare with PyTorch's product."""
    for module in {item.module for item in items if getattr(item.module, "cublas", 0) is None}:
        module.cublas = SimpleNamespace(matmul=lambda a, b, c: c.copy_(a.float() @ b.float().T))
    wanted = int(os.environ.get("TRITON_SAMPLE", "0"))
    if wanted and len(items) > wanted:
        step = len(items) / wanted
        kept = [items[int(i * step)] for i in range(wanted)]
        config.hook.pytest_deselected(items=[i for i in items if i not in set(kept)])
        items[:] = kept
