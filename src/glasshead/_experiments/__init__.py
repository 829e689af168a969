"""Experiments a reader can run again: each writes its numbers and a figure into a folder."""
