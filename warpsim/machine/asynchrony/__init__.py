"""Operations in flight: copies, mbarriers, wgmma, and registers that warps return."""
