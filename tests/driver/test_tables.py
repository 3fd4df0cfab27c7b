"""Tables of the driver against the texts of CUDA 13.0: cuda.h, driver_types.h, cudaTypedefs.h; and NVIDIA's data sheets."""

import pytest

from warpsim.driver import properties
from warpsim.driver.abi.entry_points import SINCE
from warpsim.driver.results import NAMES, Result

DRIVER = """
SUCCESS:0 INVALID_VALUE:1 OUT_OF_MEMORY:2 NOT_INITIALIZED:3 DEINITIALIZED:4 PROFILER_DISABLED:5
PROFILER_NOT_INITIALIZED:6 PROFILER_ALREADY_STARTED:7 PROFILER_ALREADY_STOPPED:8 STUB_LIBRARY:34
CALL_REQUIRES_NEWER_DRIVER:36 DEVICE_UNAVAILABLE:46 NO_DEVICE:100 INVALID_DEVICE:101 DEVICE_NOT_LICENSED:102
INVALID_IMAGE:200 INVALID_CONTEXT:201 CONTEXT_ALREADY_CURRENT:202 MAP_FAILED:205 UNMAP_FAILED:206 ARRAY_IS_MAPPED:207
ALREADY_MAPPED:208 NO_BINARY_FOR_GPU:209 ALREADY_ACQUIRED:210 NOT_MAPPED:211 NOT_MAPPED_AS_ARRAY:212
NOT_MAPPED_AS_POINTER:213 ECC_UNCORRECTABLE:214 UNSUPPORTED_LIMIT:215 CONTEXT_ALREADY_IN_USE:216
PEER_ACCESS_UNSUPPORTED:217 INVALID_PTX:218 INVALID_GRAPHICS_CONTEXT:219 NVLINK_UNCORRECTABLE:220
JIT_COMPILER_NOT_FOUND:221 UNSUPPORTED_PTX_VERSION:222 JIT_COMPILATION_DISABLED:223 UNSUPPORTED_EXEC_AFFINITY:224
UNSUPPORTED_DEVSIDE_SYNC:225 CONTAINED:226 INVALID_SOURCE:300 FILE_NOT_FOUND:301 SHARED_OBJECT_SYMBOL_NOT_FOUND:302
SHARED_OBJECT_INIT_FAILED:303 OPERATING_SYSTEM:304 INVALID_HANDLE:400 ILLEGAL_STATE:401 LOSSY_QUERY:402 NOT_FOUND:500
NOT_READY:600 ILLEGAL_ADDRESS:700 LAUNCH_OUT_OF_RESOURCES:701 LAUNCH_TIMEOUT:702 LAUNCH_INCOMPATIBLE_TEXTURING:703
PEER_ACCESS_ALREADY_ENABLED:704 PEER_ACCESS_NOT_ENABLED:705 PRIMARY_CONTEXT_ACTIVE:708 CONTEXT_IS_DESTROYED:709
ASSERT:710 TOO_MANY_PEERS:711 HOST_MEMORY_ALREADY_REGISTERED:712 HOST_MEMORY_NOT_REGISTERED:713
HARDWARE_STACK_ERROR:714 ILLEGAL_INSTRUCTION:715 MISALIGNED_ADDRESS:716 INVALID_ADDRESS_SPACE:717 INVALID_PC:718
LAUNCH_FAILED:719 COOPERATIVE_LAUNCH_TOO_LARGE:720 TENSOR_MEMORY_LEAK:721 NOT_PERMITTED:800 NOT_SUPPORTED:801
SYSTEM_NOT_READY:802 SYSTEM_DRIVER_MISMATCH:803 COMPAT_NOT_SUPPORTED_ON_DEVICE:804 MPS_CONNECTION_FAILED:805
MPS_RPC_FAILURE:806 MPS_SERVER_NOT_READY:807 MPS_MAX_CLIENTS_REACHED:808 MPS_MAX_CONNECTIONS_REACHED:809
MPS_CLIENT_TERMINATED:810 CDP_NOT_SUPPORTED:811 CDP_VERSION_MISMATCH:812 STREAM_CAPTURE_UNSUPPORTED:900
STREAM_CAPTURE_INVALIDATED:901 STREAM_CAPTURE_MERGE:902 STREAM_CAPTURE_UNMATCHED:903 STREAM_CAPTURE_UNJOINED:904
STREAM_CAPTURE_ISOLATION:905 STREAM_CAPTURE_IMPLICIT:906 CAPTURED_EVENT:907 STREAM_CAPTURE_WRONG_THREAD:908
TIMEOUT:909 GRAPH_EXEC_UPDATE_FAILURE:910 EXTERNAL_DEVICE:911 INVALID_CLUSTER_SIZE:912 FUNCTION_NOT_LOADED:913
INVALID_RESOURCE_TYPE:914 INVALID_RESOURCE_CONFIGURATION:915 KEY_ROTATION:916 UNKNOWN:999
"""
"""CUresult of cuda.h, without CUDA_ and CUDA_ERROR_."""
RUNTIME = """
Success:0 InvalidValue:1 MemoryAllocation:2 InitializationError:3 CudartUnloading:4 ProfilerDisabled:5
ProfilerNotInitialized:6 ProfilerAlreadyStarted:7 ProfilerAlreadyStopped:8 InvalidConfiguration:9 InvalidPitchValue:12
InvalidSymbol:13 InvalidHostPointer:16 InvalidDevicePointer:17 InvalidTexture:18 InvalidTextureBinding:19
InvalidChannelDescriptor:20 InvalidMemcpyDirection:21 AddressOfConstant:22 TextureFetchFailed:23 TextureNotBound:24
SynchronizationError:25 InvalidFilterSetting:26 InvalidNormSetting:27 MixedDeviceExecution:28 NotYetImplemented:31
MemoryValueTooLarge:32 StubLibrary:34 InsufficientDriver:35 CallRequiresNewerDriver:36 InvalidSurface:37
DuplicateVariableName:43 DuplicateTextureName:44 DuplicateSurfaceName:45 DevicesUnavailable:46
IncompatibleDriverContext:49 MissingConfiguration:52 PriorLaunchFailure:53 LaunchMaxDepthExceeded:65
LaunchFileScopedTex:66 LaunchFileScopedSurf:67 SyncDepthExceeded:68 LaunchPendingCountExceeded:69
InvalidDeviceFunction:98 NoDevice:100 InvalidDevice:101 DeviceNotLicensed:102 SoftwareValidityNotEstablished:103
StartupFailure:127 InvalidKernelImage:200 DeviceUninitialized:201 MapBufferObjectFailed:205
UnmapBufferObjectFailed:206 ArrayIsMapped:207 AlreadyMapped:208 NoKernelImageForDevice:209 AlreadyAcquired:210
NotMapped:211 NotMappedAsArray:212 NotMappedAsPointer:213 ECCUncorrectable:214 UnsupportedLimit:215
DeviceAlreadyInUse:216 PeerAccessUnsupported:217 InvalidPtx:218 InvalidGraphicsContext:219 NvlinkUncorrectable:220
JitCompilerNotFound:221 UnsupportedPtxVersion:222 JitCompilationDisabled:223 UnsupportedExecAffinity:224
UnsupportedDevSideSync:225 Contained:226 InvalidSource:300 FileNotFound:301 SharedObjectSymbolNotFound:302
SharedObjectInitFailed:303 OperatingSystem:304 InvalidResourceHandle:400 IllegalState:401 LossyQuery:402
SymbolNotFound:500 NotReady:600 IllegalAddress:700 LaunchOutOfResources:701 LaunchTimeout:702
LaunchIncompatibleTexturing:703 PeerAccessAlreadyEnabled:704 PeerAccessNotEnabled:705 SetOnActiveProcess:708
ContextIsDestroyed:709 Assert:710 TooManyPeers:711 HostMemoryAlreadyRegistered:712 HostMemoryNotRegistered:713
HardwareStackError:714 IllegalInstruction:715 MisalignedAddress:716 InvalidAddressSpace:717 InvalidPc:718
LaunchFailure:719 CooperativeLaunchTooLarge:720 TensorMemoryLeak:721 NotPermitted:800 NotSupported:801
SystemNotReady:802 SystemDriverMismatch:803 CompatNotSupportedOnDevice:804 MpsConnectionFailed:805 MpsRpcFailure:806
MpsServerNotReady:807 MpsMaxClientsReached:808 MpsMaxConnectionsReached:809 MpsClientTerminated:810
CdpNotSupported:811 CdpVersionMismatch:812 StreamCaptureUnsupported:900 StreamCaptureInvalidated:901
StreamCaptureMerge:902 StreamCaptureUnmatched:903 StreamCaptureUnjoined:904 StreamCaptureIsolation:905
StreamCaptureImplicit:906 CapturedEvent:907 StreamCaptureWrongThread:908 Timeout:909 GraphExecUpdateFailure:910
ExternalDevice:911 InvalidClusterSize:912 FunctionNotLoaded:913 InvalidResourceType:914
InvalidResourceConfiguration:915 Unknown:999 ApiFailureBase:10000
"""
"""cudaError of driver_types.h, without cuda and cudaError."""
TYPEDEFS = """
cuCtxCreate:2000,3020,11040,12050 cuMemPrefetchAsync:8000,12020 cuMemAdvise:8000,12020
cuGraphKernelNodeSetParams:10000,12000 cuGraphExecKernelNodeSetParams:10010,12000 cuGraphAddKernelNode:10000,12000
cuGraphKernelNodeGetParams:10000,12000 cuGraphExecUpdate:10020,12000 cuGraphAddNode:12020,12030
cuGraphRemoveDependencies:10000,12030 cuGraphGetEdges:10000,12030 cuGraphNodeGetDependencies:10000,12030 cuGraphNodeGetDependentNodes:10000,12030
cuGraphAddDependencies:10000,12030 cuStreamGetCaptureInfo:10010,11030,12030
cuStreamUpdateCaptureDependencies:11030,12030 cuEventElapsedTime:2000,12080 cuCtxGetDevice:2000,13000
cuCtxSynchronize:2000,13000 cuStreamGetCtx:9020,12050 cuLaunchHostFunc:10000 cuGetProcAddress:11030,12000
"""
"""The versions of CUDA from which on cudaTypedefs.h has a form of a function."""


def numbers(text):
    """Names and their numbers."""
    return {name: int(number) for name, _, number in (entry.partition(":") for entry in text.split())}


def test_results():
    """Each code has the name and the number of cuda.h."""
    known = numbers(DRIVER)
    assert {result.name: int(result) for result in Result} == {r.name: known[r.name] for r in Result}


def test_errors_of_the_run_time():
    """Each code has the name of driver_types.h."""
    assert {number: name for name, number in numbers(RUNTIME).items()} == {
        number: "Success" if number == 0 else name.removeprefix("cudaError") for number, name in NAMES.items()
    }


@pytest.mark.parametrize("name", sorted(set(SINCE) - {"cuLaunchHostFunc_v2"}))  # which came with 13.1
def test_versions_of_functions(name):
    """A later form came with a version of CUDA that has it."""
    versions = dict(entry.split(":") for entry in TYPEDEFS.split())[name[:-3] if name[-3:-1] == "_v" else name]
    assert str(SINCE[name]) in versions.split(",")


@pytest.mark.parametrize(
    ("sm", "name", "sms", "clock", "memory", "bits", "l2", "threads", "blocks"),
    [
        (70, "V100", 80, 1530, 877, 4096, 6, 2048, 32),
        (75, "T4", 40, 1590, 5001, 256, 4, 1024, 16),
        (80, "A100", 108, 1410, 1593, 5120, 40, 2048, 32),
        (86, "A10", 72, 1695, 6251, 384, 6, 1536, 16),
        (89, "L40S", 142, 2520, 9001, 384, 96, 1536, 24),
        (90, "H100", 132, 1980, 2619, 5120, 50, 2048, 32),
    ],
)
def test_models(sm, name, sms, clock, memory, bits, l2, threads, blocks):
    """Multiprocessors, clocks in MHz, memory, L2 in MiB, and what is resident on a multiprocessor."""
    assert properties.name(sm) == f"NVIDIA {name} (simulated)"
    numbers = (16, 13, 36, 37, 38, 39, 106, 75, 76)
    expected = (sms, clock * 1000, memory * 1000, bits, l2 << 20, threads, blocks, sm // 10, sm % 10)
    assert tuple(properties.attribute(sm, number) for number in numbers) == expected


def test_attributes_of_generations():
    """Shared memory that a block may have, what clusters and maps of tensors need, what every GPU has; unknown ones are 0."""
    kib = {70: 96, 75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
    assert {sm: properties.attribute(sm, 97) >> 10 for sm in kib} == kib
    for sm in kib:
        assert properties.attribute(sm, 120) == properties.attribute(sm, 127) == int(sm >= 90)
        assert properties.attribute(sm, 111) == (1024 if sm >= 80 else 0)
        assert [properties.attribute(sm, n) for n in (1, 2, 3, 4, 5, 6, 7)] == [
            1024,
            1024,
            1024,
            64,
            2**31 - 1,
            65535,
            65535,
        ]
        assert [properties.attribute(sm, n) for n in (8, 9, 10, 12, 82)] == [49152, 65536, 32, 65536, 65536]
        assert all(
            properties.attribute(sm, n) == 1
            for n in (15, 19, 31, 41, 78, 79, 80, 83, 89, 90, 91, 95, 99, 113, 115, 129)
        )
        assert properties.attribute(sm, 130) == properties.attribute(sm, 150) == properties.attribute(sm, 0) == 0
    assert [properties.attribute(90, 33, ordinal) for ordinal in (0, 3)] == [1, 4]
    assert properties.name(120) == "NVIDIA sm_120 (simulated)"
    assert properties.model(120) is properties.model(90)
