"""`trnsim check`: run a user's script under observation and report what the device made of it.

report      the findings, as data and JSON        run         the script, in this process, under the ledger
collect     from a ledger session to a report     steps       where a training step ends
from_cuda   scripts that say cuda                 modules     which nn.Module is running
remedies    what to do about a finding            render      the summary on the terminal
"""
