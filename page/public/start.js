// Runs before the page's own script has come: the chosen theme, so that the other one never flashes, and the first
// requests, which the page takes over (src/lib/api/client.ts), so that the server works while the script is loaded.
(() => {
  try {
    const chosen = localStorage.getItem('dpxplain.theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage may be forbidden; the system's colour scheme is used then.
  }

  const early = new Map();
  globalThis.dpxplainEarly = early;

  /** What is asked for next is begun before the page sees the response that it depends on. */
  function begin(path, next) {
    const response = fetch(new URL(`api/v1${path}`, document.baseURI), { credentials: 'same-origin' }).then(
      async (answered) => {
        if (next && answered.ok) next(await answered.clone().json());
        return answered;
      },
    );
    response.catch(() => undefined); // whoever takes it over handles its failure
    early.set(path, response);
  }

  /** The answer that an address names, as the page will ask for it. */
  function beginAnswer(dataset, values) {
    const answer = values.get('answer') ?? '';
    if (!/^\d+(@.*)?$/.test(answer)) return;
    const query = new URLSearchParams({ confidence: Number(values.get('confidence') || 0.95), form: 'columns' });
    begin(`/datasets/${dataset}/answers/${encodeURIComponent(answer)}?${query}`);
  }

  begin('/me', ({ signed_in, datasets }) => {
    if (!signed_in) return;
    // As the page encodes a name. Anything else, such as a slash in any form, could lead to another address of the server.
    const [, named, search] =
      /^#\/(?!curator|board|invite|\.|%2e)((?:(?!%2f|%5c)[\w.!~*'()%-])+)(?:\?(.*))?$/i.exec(location.hash) ?? [];
    if (named) {
      beginAnswer(named, new URLSearchParams(search));
      begin(`/datasets/${named}`);
    }
    const [only] = datasets?.length === 1 && /^(#\/?)?$/.test(location.hash) ? datasets : [];
    if (only) begin(`/datasets/${encodeURIComponent(only.name)}`);
  });
})();
