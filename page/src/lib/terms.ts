// The words that a newcomer stumbles over, each explained in a few sentences where it stands.
export const TERMS = {
  confidence: {
    name: 'confidence',
    text: 'How often such intervals hold what they are about: at 95%, about 1 in 20 misses. More confidence makes wider intervals and costs nothing.',
  },
  reading: {
    name: 'intervals',
    text: 'Noise was added on purpose, so the exact value is not known; the interval is where it lies. In these data: what holds for the rows at hand, so intervals cover privacy noise only. In general: what holds for the population, if these rows were drawn from it at random, so intervals also cover sampling error and are wider. Both are free.',
  },
  verdict: {
    name: 'not just noise',
    text: 'Not just noise: the difference is there in these data, even allowing for privacy noise. Unclear: noise alone may have made it. The other way: the data say the opposite.',
  },
  rho: {
    name: 'ρ and ε',
    text: 'ρ (rho) is the price in privacy: how much an answer can tell about one person at most. Prices add up. ε (epsilon) puts the same in terms of guesses: how far a guess about one person may move. Smaller is more private.',
  },
  prepared: {
    name: 'prepared',
    text: 'Noisy counts of this answer by its attributes were measured once and paid for. Every later explanation is computed from them, so it costs nothing more.',
  },
  story: {
    name: 'the story',
    text: 'A short tree. First the condition that is estimated to explain most of the difference; then, among its rows only, the next. Beside each stands what the difference is among the other rows. It ends before a condition that noise may have made up.',
  },
  condition: {
    name: 'a condition',
    text: 'A property of rows, such as sex = Male. It is judged by leaving out the rows that have it and looking at what becomes of the difference. That is not proof of cause.',
  },
  influence: {
    name: 'influence and rank',
    text: 'How far the number in question moves when the rows that meet the condition are left out, weighted by the share of rows that remain. Above zero: they make it larger. Relative influence is a share of the number itself. The rank is the place of a condition when all are sorted by influence; noise blurs the order, so it is an interval.',
  },
  distinct: {
    name: 'nearly the same rows',
    text: 'Conditions that hold for nearly the same rows say nearly the same. They are folded under the simplest one, so that the table says different things.',
  },
} as const;

export type TermName = keyof typeof TERMS;
