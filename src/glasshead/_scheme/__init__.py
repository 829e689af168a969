from .full import full as full
