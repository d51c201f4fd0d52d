// Texts that were begun and not saved, kept in memory only, so that looking elsewhere loses nothing.
export const drafts = new Map<string, string>();

export const NEW = '';

export const TEMPLATE = `# Everything in this file is public.
#
# Domains and bounds come from what is known without the data: a questionnaire, a code book, a law.
# Never read them off the rows: the highest pay in the data says something about one person.

[table]
name = "people"
source = "people.parquet"   # beside this file, or inside the server's data folder

[privacy]
rho = 0.1                   # what may be spent in all, by everybody, ever; 0.1 keeps moderate protection
unit = "row"                # one row is one person; or the name of the column that tells persons apart

[columns.sex]
values = ["Female", "Male"]
description = "As stated in the questionnaire"

[columns.age]
edges = [0, 20, 40, 60, 80, 120]

[columns.pay]
bounds = [0, 200000]        # values beyond them count as the nearer bound
`;
