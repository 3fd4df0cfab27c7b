"""Run compiled regions: pass live-ins, commit live-outs, or roll back."""
