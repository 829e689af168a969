"""What an endpoint gives away, and what would stop it: `gh.audit`.

Recoveries under a grid of defences (`settings`), by an attacker who knows the defence (`attack`); what honest users pay
(`honest`); the words and the ranking (`verdict`); what leaks without any chosen vector (`leak`).
"""

from .audit import AUDIT_FORMAT, Audit, TargetSource, audit
from .copies import Finding
from .leak import Leak, find_leak
