"""vcctl and its relatives: one table of commands, one session, and printers that fit the terminal or the script.

To add a command:

1. Write a module with two functions. The first adds the command's own flags, the second does the work::

       def run_arguments(parser: argparse.ArgumentParser) -> None:
           flags.add_target(parser, "job")

       async def run(arguments: argparse.Namespace, session: Session) -> int:
           target = naming.target(arguments, session, "job name is mandatory")
           job = await naming.find(session, JOB, target)
           session.write(...)
           return 0

2. Add one row to `commands.VCCTL`: its words, its module, its line of help. A module with several commands names the
   function in the row: `function="suspend"` stands for `suspend_arguments` and `suspend`.

The module is imported only when its command is chosen, so it may import what it likes at its top, except that rich,
numpy and the like belong inside the functions that need them. What a command gets:

- `session.client`: an `HttpClient`, connected on first use; `session.namespace`: the one chosen by flag or context;
  `session.clock`: the only clock to ask or to wait on.
- `session.write(text)` prints a line, `session.complain(text)` one on stderr; `session.terminal` says whether stdout
  is one, `session.width` how wide, `session.paint(text, "green")` colours where colours are wanted.
- `naming.target` and `naming.find` resolve `NAME`, `-N`, `--name` and `-n`, and suggest the near name.
- `listing.show` is every list: `-o`, `-A`, `-l`, `--sort-by` and `-w` come with `flags.add_list`.
- Failures are exceptions: `errors.CommandError` (1), `errors.UsageError` (2), `errors.Missing` (3), `errors.NoServer`
  (4). An `ApiError` may pass through: it becomes the right one of these. Return 0, or another code without a message.
"""
