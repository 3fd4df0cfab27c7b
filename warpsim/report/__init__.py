"""Findings and counts as others read them: plain data, SARIF, and pages of HTML that need nothing beside them."""
