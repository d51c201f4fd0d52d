"""The command line: commands over Session, with results on stdout and everything else on stderr.

entry       runs a command and turns whatever it raises into one sentence and an exit code
app         all commands under one roof
phases      query, why, explain, preview
prepare     prepare
further     compute, ratio
account     budget, history
demo        the guided tour
declare     schema init, schema check
serve       serve
administer  token, allow, audit
desk        what those three share
options     what the commands' options are called and mean
opening     from options to a session
recall      a session without data: what was released before, and prices
asking      from words on the command line to a question
screen      what people see: results, prices, progress
failures    errors as sentences, JSON and exit codes
"""

from dpxplain.cli.entry import main, run

__all__ = ["main", "run"]
