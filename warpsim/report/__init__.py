"""Findings and counts in output formats: plain data, SARIF, and self-contained HTML pages."""
