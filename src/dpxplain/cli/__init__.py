"""The command line: commands over Session, with results on stdout and everything else on stderr.

command_line      all commands; runs one and turns whatever it raises into one sentence and an exit code
ask_commands      query, why, preview, prepare, compute
explain_commands  explain, ratio
account_commands  budget, history, quality
demo              demo, sample
schema_commands   schema init, schema check; schema_draft writes the drafted TOML
data_commands     data
serve_command     serve
admin_commands    token, allow; admin_options has what these, audit and data share
audit_commands    audit show, verify and anchor; privacy_audit_command has audit privacy
options           names, meaning and grouping of the options; what the shell offers after a Tab
workspace         from options and words to a session and a question; read_only opens one without the data
screen            printed results, prices, progress
exits             errors as sentences, JSON and exit codes
"""

from dpxplain.cli.command_line import main, run

__all__ = ["main", "run"]
