"""The runtime's error names that differ from the driver's."""

from __future__ import annotations

_TABLE = """
0:Success 1:InvalidValue 2:MemoryAllocation 3:InitializationError 4:CudartUnloading 5:ProfilerDisabled
6:ProfilerNotInitialized 7:ProfilerAlreadyStarted 8:ProfilerAlreadyStopped 9:InvalidConfiguration
12:InvalidPitchValue 13:InvalidSymbol 16:InvalidHostPointer 17:InvalidDevicePointer 18:InvalidTexture
19:InvalidTextureBinding 20:InvalidChannelDescriptor 21:InvalidMemcpyDirection 22:AddressOfConstant
23:TextureFetchFailed 24:TextureNotBound 25:SynchronizationError 26:InvalidFilterSetting 27:InvalidNormSetting
28:MixedDeviceExecution 31:NotYetImplemented 32:MemoryValueTooLarge 34:StubLibrary 35:InsufficientDriver
36:CallRequiresNewerDriver 37:InvalidSurface 43:DuplicateVariableName 44:DuplicateTextureName
45:DuplicateSurfaceName 46:DevicesUnavailable 49:IncompatibleDriverContext 52:MissingConfiguration
53:PriorLaunchFailure 65:LaunchMaxDepthExceeded 66:LaunchFileScopedTex 67:LaunchFileScopedSurf 68:SyncDepthExceeded
69:LaunchPendingCountExceeded 98:InvalidDeviceFunction 100:NoDevice 101:InvalidDevice 102:DeviceNotLicensed
103:SoftwareValidityNotEstablished 127:StartupFailure 200:InvalidKernelImage 201:DeviceUninitialized
205:MapBufferObjectFailed 206:UnmapBufferObjectFailed 207:ArrayIsMapped 208:AlreadyMapped 209:NoKernelImageForDevice
210:AlreadyAcquired 211:NotMapped 212:NotMappedAsArray 213:NotMappedAsPointer 214:ECCUncorrectable
215:UnsupportedLimit 216:DeviceAlreadyInUse 217:PeerAccessUnsupported 218:InvalidPtx 219:InvalidGraphicsContext
220:NvlinkUncorrectable 221:JitCompilerNotFound 222:UnsupportedPtxVersion 223:JitCompilationDisabled
224:UnsupportedExecAffinity 225:UnsupportedDevSideSync 226:Contained 300:InvalidSource 301:FileNotFound
302:SharedObjectSymbolNotFound 303:SharedObjectInitFailed 304:OperatingSystem 400:InvalidResourceHandle
401:IllegalState 402:LossyQuery 500:SymbolNotFound 600:NotReady 700:IllegalAddress 701:LaunchOutOfResources
702:LaunchTimeout 703:LaunchIncompatibleTexturing 704:PeerAccessAlreadyEnabled 705:PeerAccessNotEnabled
708:SetOnActiveProcess 709:ContextIsDestroyed 710:Assert 711:TooManyPeers 712:HostMemoryAlreadyRegistered
713:HostMemoryNotRegistered 714:HardwareStackError 715:IllegalInstruction 716:MisalignedAddress
717:InvalidAddressSpace 718:InvalidPc 719:LaunchFailure 720:CooperativeLaunchTooLarge 721:TensorMemoryLeak
800:NotPermitted 801:NotSupported 802:SystemNotReady 803:SystemDriverMismatch 804:CompatNotSupportedOnDevice
805:MpsConnectionFailed 806:MpsRpcFailure 807:MpsServerNotReady 808:MpsMaxClientsReached
809:MpsMaxConnectionsReached 810:MpsClientTerminated 811:CdpNotSupported 812:CdpVersionMismatch
900:StreamCaptureUnsupported 901:StreamCaptureInvalidated 902:StreamCaptureMerge 903:StreamCaptureUnmatched
904:StreamCaptureUnjoined 905:StreamCaptureIsolation 906:StreamCaptureImplicit 907:CapturedEvent
908:StreamCaptureWrongThread 909:Timeout 910:GraphExecUpdateFailure 911:ExternalDevice 912:InvalidClusterSize
913:FunctionNotLoaded 914:InvalidResourceType 915:InvalidResourceConfiguration 999:Unknown 10000:ApiFailureBase
"""
NAMES = {
    int(code): "cudaSuccess" if name == "Success" else f"cudaError{name}"
    for code, _, name in (entry.partition(":") for entry in _TABLE.split())
}
"""Names by number."""
INVALID_CONFIGURATION, INVALID_SYMBOL, INVALID_DIRECTION, INVALID_FUNCTION = 9, 13, 21, 98
TEXTS = {
    INVALID_CONFIGURATION: "invalid configuration argument",
    12: "invalid pitch argument",
    INVALID_SYMBOL: "invalid device symbol",
    INVALID_DIRECTION: "invalid copy direction for memcpy",
    INVALID_FUNCTION: "invalid device function",
}
"""Texts of errors that the driver lacks."""


class RuntimeRefusal(Exception):
    """A call that the runtime refuses with a code of its own."""

    def __init__(self, code: int, message: str = "") -> None:
        self.code = code
        super().__init__(message or TEXTS.get(code, ""))
