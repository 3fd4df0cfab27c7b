"""Functions by name: where they are, other names of them, and those that the simulated driver does not support.

A program that only refers to an unsupported function starts; a call says what is missing.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

from warpsim.driver.abi.calls import CALLS, call, missing
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.driver import VERSION
from warpsim.driver.modules import section
from warpsim.driver.raw import bytes_at, file_at, library_at, put32, put64
from warpsim.driver.results import DriverError, Result, require

SINCE = {
    "cuCtxCreate_v4": 12050,
    "cuCtxCreate_v3": 11040,
    "cuMemPrefetchAsync_v2": 12020,
    "cuMemAdvise_v2": 12020,
    "cuGraphKernelNodeSetParams_v2": 12000,
    "cuGraphExecKernelNodeSetParams_v2": 12000,
    "cuGraphAddKernelNode_v2": 12000,
    "cuGraphKernelNodeGetParams_v2": 12000,
    "cuGraphExecUpdate_v2": 12000,
    "cuGraphAddNode_v2": 12030,
    "cuGraphRemoveDependencies_v2": 12030,
    "cuStreamGetCaptureInfo_v2": 11030,
    "cuGraphGetEdges_v2": 12030,
    "cuGraphNodeGetDependencies_v2": 12030,
    "cuGraphNodeGetDependentNodes_v2": 12030,
    "cuGraphAddDependencies_v2": 12030,
    "cuStreamGetCaptureInfo_v3": 12030,
    "cuStreamUpdateCaptureDependencies_v2": 12030,
    "cuEventElapsedTime_v2": 12080,
    "cuCtxGetDevice_v2": 13000,
    "cuCtxSynchronize_v2": 13000,
    "cuStreamGetCtx_v2": 12050,
    "cuLaunchHostFunc_v2": 13010,
    "cuGetProcAddress_v2": 12000,
}
"""The CUDA version that introduced a later version of a function; the others came with CUDA 4, or before 11."""
RUNTIME_TABLE = bytes.fromhex("6bd5fb6c5bf4e74a8987d93912fd9df9")
"""The export table that NVIDIA's runtime requires."""
_LIBRARIES: list[Any] = []


def entry(symbol: str, version: int) -> int:
    """The address of the latest version of a function that a CUDA version has; 0 if none."""
    for suffix in ("_v4", "_v3", "_v2", ""):
        name = symbol + suffix
        if name in PROCESS.addresses and name in CALLS["cuda"] and SINCE.get(name, 0) <= version:
            return PROCESS.addresses[name]
    return 0


@call("TOIP", "cuGetProcAddress")
@call("TOIPP", "cuGetProcAddress_v2")
def get_address(symbol: str, out: int, version: int, flags: int, status: int = 0) -> None:
    require(version <= VERSION + 999, f"CUDA {version}")
    found = entry(symbol, version)
    put64(out, found)
    put32(status, 0 if found else 1)
    require(found or status, symbol, Result.NOT_FOUND)


@call("TOPP", "cudaGetDriverEntryPoint")
def get_entry_point(symbol: str, out: int, flags: int, status: int) -> None:
    get_entry_point_by_version(symbol, out, VERSION, flags, status)


@call("TOUPP", "cudaGetDriverEntryPointByVersion")
def get_entry_point_by_version(symbol: str, out: int, version: int, flags: int, status: int) -> None:
    """Store the address of a driver function; the driver is loaded if it is not yet."""
    if "cuInit" not in PROCESS.addresses:
        _LIBRARIES.append(ctypes.CDLL("libcuda.so.1"))
        _LIBRARIES[-1].cuInit(0)
    get_address(symbol, out, min(version, VERSION), flags, status)


@call("U", "cuInit")
def initialize(flags: int) -> None:
    """Initialise; to a library that needs NVIDIA's run time there is no device, so that it announces none."""
    require(not flags)
    PROCESS.initialized = PROCESS.driver is not None
    path = file_at(PROCESS.caller())
    if path and not section(path, b".symtab") and _holds(path, RUNTIME_TABLE):
        raise _without_names(PROCESS.caller(), Result.NO_DEVICE)


def _holds(path: str, what: bytes) -> bool:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as contents:
        return contents.find(what) >= 0


def _without_names(address: int, result: Result) -> DriverError:
    return DriverError(
        result,
        f"{library_at(address) or 'the program'} has NVIDIA's run time linked in, and has been stripped of names: NVIDIA's own "
        "libraries (cuBLAS, cuDNN, cuRAND) are machine code, which warpsim cannot run, so leave what they compute to the "
        "CPU; link what is yours with -cudart shared, or do not strip it; build NVIDIA Warp with --use-dynamic-cuda",
    )


@call("OO", "cuGetExportTable")
@call("OP", "cudaGetExportTable")
def get_export_table(out: int, number: int) -> None:
    """Refuse: export tables have no documentation.

    NVIDIA's runtime asks for one where a program has been stripped of names, so that ours could not take its place. NVRTC
    asks too, and does without.
    """
    put64(out, 0)
    require(number and bytes_at(number, 16) == RUNTIME_TABLE, result=Result.NOT_SUPPORTED)
    raise _without_names(number, Result.NOT_SUPPORTED)


PER_THREAD = {
    "cuda": """
cuEventRecordWithFlags cuEventRecord cuGraphInstantiateWithParams cuGraphLaunch cuGraphUpload
cuLaunchCooperativeKernel cuLaunchHostFunc cuLaunchKernelEx cuLaunchKernel cuMemAllocAsync cuMemAllocFromPoolAsync
cuMemFreeAsync cuMemPrefetchAsync cuMemPrefetchAsync_v2 cuMemcpy2DAsync_v2 cuMemcpy2DUnaligned_v2* cuMemcpy2D_v2*
cuMemcpy3DAsync_v2 cuMemcpy3D_v2* cuMemcpyAsync cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2* cuMemcpyDtoHAsync_v2
cuMemcpyDtoH_v2* cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2* cuMemcpyAtoA_v2* cuMemcpyAtoD_v2* cuMemcpyAtoHAsync_v2 cuMemcpyAtoH_v2* cuMemcpyDtoA_v2* cuMemcpyHtoAAsync_v2
cuMemcpyHtoA_v2* cuMemcpyPeerAsync cuMemcpyPeer* cuMemcpy* cuMemsetD16Async
cuMemsetD16_v2* cuMemsetD2D16Async cuMemsetD2D16_v2* cuMemsetD2D32Async cuMemsetD2D32_v2* cuMemsetD2D8Async
cuMemsetD2D8_v2* cuMemsetD32Async cuMemsetD32_v2* cuMemsetD8Async cuMemsetD8_v2* cuStreamAddCallback
cuStreamAttachMemAsync cuStreamBatchMemOp cuStreamBatchMemOp_v2 cuStreamBeginCaptureToGraph cuStreamBeginCapture
cuStreamBeginCapture_v2 cuStreamCopyAttributes cuStreamEndCapture cuStreamGetAttribute cuStreamGetCaptureInfo
cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3 cuStreamGetCtx cuStreamGetCtx_v2 cuStreamGetDevice
cuStreamGetFlags cuStreamGetId cuStreamGetPriority cuStreamIsCapturing cuStreamQuery cuStreamSetAttribute
cuStreamSynchronize cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2 cuStreamWaitEvent
cuStreamWaitValue32 cuStreamWaitValue32_v2 cuStreamWaitValue64 cuStreamWaitValue64_v2 cuStreamWriteValue32
cuStreamWriteValue32_v2 cuStreamWriteValue64 cuStreamWriteValue64_v2
""",
    "cudart": """
__cudaLaunchKernel cudaEventRecordWithFlags cudaEventRecord cudaFreeAsync cudaGetDriverEntryPointByVersion
cudaGetDriverEntryPoint cudaGraphInstantiateWithParams cudaGraphLaunch cudaGraphUpload cudaLaunchCooperativeKernel
cudaLaunchHostFunc cudaLaunchKernelExC cudaLaunchKernel cudaMallocAsync cudaMallocFromPoolAsync cudaMemPrefetchAsync
cudaMemcpy2DArrayToArray* cudaMemcpy2DAsync cudaMemcpy2DFromArrayAsync cudaMemcpy2DFromArray* cudaMemcpy2DToArrayAsync
cudaMemcpy2DToArray* cudaMemcpy2D* cudaMemcpy3DAsync cudaMemcpy3D*
cudaMemcpyArrayToArray* cudaMemcpyAsync cudaMemcpyFromArrayAsync cudaMemcpyFromArray* cudaMemcpyFromSymbolAsync cudaMemcpyFromSymbol* cudaMemcpyToArrayAsync cudaMemcpyToArray*
cudaMemcpyToSymbolAsync cudaMemcpyToSymbol* cudaMemcpy* cudaMemset2DAsync cudaMemset2D* cudaMemsetAsync cudaMemset*
cudaStreamAddCallback cudaStreamAttachMemAsync cudaStreamBeginCaptureToGraph cudaStreamBeginCapture
cudaStreamCopyAttributes cudaStreamEndCapture cudaStreamGetAttribute cudaStreamGetCaptureInfo cudaStreamGetDevice
cudaStreamGetFlags cudaStreamGetId cudaStreamGetPriority cudaStreamIsCapturing cudaStreamQuery cudaStreamSetAttribute
cudaStreamSynchronize cudaStreamUpdateCaptureDependencies cudaStreamWaitEvent
""",
}
"""Functions that also use the thread's default stream (_ptsz; with a star, _ptds): there is only one default stream here."""
DRIVER = """
cuCheckpointProcessCheckpoint cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState
cuCheckpointProcessLock cuCheckpointProcessRestore cuCheckpointProcessUnlock cuCoredumpGetAttribute
cuCoredumpGetAttributeGlobal cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal cuCtxAttach
cuCtxFromGreenCtx cuCtxGetDevResource cuCtxGetExecAffinity cuCtxRecordEvent cuCtxWaitEvent cuDestroyExternalMemory
cuDestroyExternalSemaphore cuDevResourceGenerateDesc cuDevSmResourceSplitByCount cuDeviceGetDevResource
cuDeviceGetExecAffinitySupport cuDeviceGetHostAtomicCapabilities cuDeviceGetNvSciSyncAttributes
cuDeviceGetP2PAtomicCapabilities cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification
cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray cuFlushGPUDirectRDMAWrites
cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode
cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams
cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresSignalNodeSetParams
cuGraphExternalSemaphoresWaitNodeGetParams cuGraphExternalSemaphoresWaitNodeSetParams cuGraphicsMapResources
cuGraphicsMapResources_ptsz cuGraphicsResourceGetMappedMipmappedArray cuGraphicsResourceGetMappedPointer
cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2
cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources cuGraphicsUnmapResources_ptsz
cuGraphicsUnregisterResource cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource cuGreenCtxGetId
cuGreenCtxRecordEvent cuGreenCtxStreamCreate cuGreenCtxWaitEvent cuImportExternalMemory cuImportExternalSemaphore
cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle cuIpcOpenMemHandle
cuIpcOpenMemHandle_v2 cuLaunchCooperativeKernelMultiDevice
cuLibraryGetUnifiedFunction cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuMemBatchDecompressAsync cuMemBatchDecompressAsync_ptsz
cuMemDiscardAndPrefetchBatchAsync cuMemDiscardAndPrefetchBatchAsync_ptsz cuMemDiscardBatchAsync
cuMemDiscardBatchAsync_ptsz cuMemGetDefaultMemPool cuMemGetHandleForAddressRange cuMemGetMemPool
cuMemMapArrayAsync cuMemMapArrayAsync_ptsz cuMemPoolExportPointer
cuMemPoolExportToShareableHandle cuMemPoolGetAccess cuMemPoolImportFromShareableHandle cuMemPoolImportPointer
cuMemPrefetchBatchAsync cuMemPrefetchBatchAsync_ptsz cuMemRangeGetAttributes cuMemSetMemPool cuMemcpy3DBatchAsync cuMemcpy3DBatchAsync_ptsz cuMemcpy3DBatchAsync_v2
cuMemcpy3DBatchAsync_v2_ptsz cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpy3DPeerAsync_ptsz cuMemcpy3DPeer_ptds
cuMemcpyBatchAsync cuMemcpyBatchAsync_ptsz cuMemcpyBatchAsync_v2 cuMemcpyBatchAsync_v2_ptsz cuMulticastAddDevice
cuMulticastBindAddr cuMulticastBindMem cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind
cuParamSetTexRef cuProfilerInitialize cuSignalExternalSemaphoresAsync
cuSignalExternalSemaphoresAsync_ptsz cuStreamGetGreenCtx
cuWaitExternalSemaphoresAsync
cuWaitExternalSemaphoresAsync_ptsz
"""
"""Unsupported functions of CUDA 13's driver."""
RUNTIME = """
__cudaGetProcAddress __cudaRegisterHostVar __cudaRegisterUnifiedTable cudaArrayGetMemoryRequirements
cudaDestroyExternalMemory cudaDestroyExternalSemaphore cudaDevResourceGenerateDesc cudaDevSmResourceSplit
cudaDevSmResourceSplitByCount cudaDeviceFlushGPUDirectRDMAWrites cudaDeviceGetDevResource cudaDeviceGetExecutionCtx
cudaDeviceGetHostAtomicCapabilities cudaDeviceGetP2PAtomicCapabilities cudaDeviceRegisterAsyncNotification
cudaDeviceUnregisterAsyncNotification cudaExecutionCtxDestroy cudaExecutionCtxGetDevResource cudaExecutionCtxGetDevice
cudaExecutionCtxGetId cudaExecutionCtxRecordEvent cudaExecutionCtxStreamCreate cudaExecutionCtxSynchronize
cudaExecutionCtxWaitEvent cudaExternalMemoryGetMappedBuffer cudaExternalMemoryGetMappedMipmappedArray
cudaGraphAddExternalSemaphoresSignalNode cudaGraphAddExternalSemaphoresWaitNode
cudaGraphConditionalHandleCreate_v2 cudaGraphExecExternalSemaphoresSignalNodeSetParams
cudaGraphExecExternalSemaphoresWaitNodeSetParams cudaGraphExecGetId cudaGraphExternalSemaphoresSignalNodeGetParams
cudaGraphExternalSemaphoresSignalNodeSetParams cudaGraphExternalSemaphoresWaitNodeGetParams
cudaGraphExternalSemaphoresWaitNodeSetParams cudaGraphGetId cudaGraphNodeGetContainingGraph cudaGraphNodeGetLocalId
cudaGraphNodeGetParams cudaGraphNodeGetToolsId cudaGraphicsGLRegisterBuffer cudaGraphicsGLRegisterImage
cudaGraphicsMapResources cudaGraphicsResourceGetMappedEglFrame cudaGraphicsResourceGetMappedMipmappedArray
cudaGraphicsResourceGetMappedPointer cudaGraphicsResourceSetMapFlags cudaGraphicsSubResourceGetMappedArray
cudaGraphicsUnmapResources cudaGraphicsUnregisterResource cudaGreenCtxCreate cudaImportExternalMemory
cudaImportExternalSemaphore cudaIpcCloseMemHandle cudaIpcGetEventHandle cudaIpcGetMemHandle cudaIpcOpenEventHandle
cudaIpcOpenMemHandle cudaLaunchHostFunc_v2 cudaLaunchHostFunc_v2_ptsz cudaLibraryGetUnifiedFunction cudaLogsCurrent
cudaLogsDumpToFile cudaLogsDumpToMemory cudaLogsRegisterCallback cudaLogsUnregisterCallback
cudaMemDiscardAndPrefetchBatchAsync cudaMemDiscardAndPrefetchBatchAsync_ptsz cudaMemDiscardBatchAsync
cudaMemDiscardBatchAsync_ptsz cudaMemGetDefaultMemPool cudaMemGetMemPool cudaMemPoolExportPointer
cudaMemPoolExportToShareableHandle cudaMemPoolGetAccess cudaMemPoolImportFromShareableHandle cudaMemPoolImportPointer
cudaMemPrefetchBatchAsync cudaMemPrefetchBatchAsync_ptsz cudaMemRangeGetAttributes cudaMemSetMemPool
cudaMemcpy3DBatchAsync cudaMemcpy3DBatchAsync_ptsz cudaMemcpy3DPeer cudaMemcpy3DPeerAsync cudaMemcpy3DPeerAsync_ptsz
cudaMemcpy3DPeer_ptds cudaMemcpy3DWithAttributesAsync cudaMemcpy3DWithAttributesAsync_ptsz cudaMemcpyBatchAsync
cudaMemcpyBatchAsync_ptsz cudaMemcpyWithAttributesAsync cudaMemcpyWithAttributesAsync_ptsz
cudaMipmappedArrayGetMemoryRequirements cudaSignalExternalSemaphoresAsync cudaSignalExternalSemaphoresAsync_ptsz
cudaStreamGetDevResource cudaStreamGetDevResource_ptsz cudaWaitExternalSemaphoresAsync
cudaWaitExternalSemaphoresAsync_ptsz
"""
"""Unsupported functions of CUDA 13's runtime."""


def declare_per_thread(library: str) -> None:
    """Declare the names under which a program calls functions that use the thread's default stream."""
    for word in PER_THREAD.get(library, "").split():
        same = CALLS[library][word.removesuffix("*")]
        name = f"{same.name}_{'ptds' if word.endswith('*') else 'ptsz'}"
        CALLS[library][name] = same._replace(name=name)


missing(DRIVER)
missing(RUNTIME)
