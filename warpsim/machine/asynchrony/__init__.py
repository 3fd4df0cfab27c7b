"""What is in flight: copies, mbarriers, wgmma, and the registers that warps give back."""
