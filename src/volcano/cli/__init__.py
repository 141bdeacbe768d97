"""vcctl and related programs: a table of commands, a session, and printers for terminals and scripts.

To add a command:

1. Write a module with two functions. The first adds the command's flags, the second runs it::

       def run_arguments(parser: argparse.ArgumentParser) -> None:
           flags.add_target(parser, "job")

       async def run(arguments: argparse.Namespace, session: Session) -> int:
           target = objects.target(arguments, session, "job name is mandatory")
           job = await find(session.client, JOB, target)
           session.write(...)
           return 0

2. Add one row to `commands.VCCTL`: words, module, help. A module with several commands names the function
in the row: `function="suspend"` stands for `suspend_arguments` and `suspend`.

The module is imported only when its command is chosen. rich, numpy and other slow imports belong inside
the functions that need them. A command gets:

- `session.client`: an `HttpClient`, connected on first use; `session.namespace`: the one chosen by flag or
context; `session.clock`: the only clock to read or to wait on. - `session.write(text)` prints a line,
`session.warn(text)` one on stderr; `session.terminal` says whether stdout is a terminal, `session.width`
how wide it is, `session.paint(text, "green")` colours text where colours are on. - `objects.target`
resolves `NAME`, `-N`, `--name` and `-n`; `services.objects.find` suggests a similar name. - `listing.show` prints
every list: `-o`, `-A`, `-l`, `--sort-by` and `-w` come with `flags.add_list`. - Failures are exceptions:
`errors.CommandError` (1), `errors.UsageError` (2), and those of
`services.errors`: `NotFoundError` (3), `Unreachable` (4), others (1). An
`ApiError` is converted to one of these. Return 0, or another code without a message.
"""
