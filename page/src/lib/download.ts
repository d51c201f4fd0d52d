// Files that leave the page, made in the browser from what is shown.

export function save(name: string, content: Blob | string, type = 'text/plain;charset=utf-8'): void {
  const blob = typeof content === 'string' ? new Blob([content], { type }) : content;
  const address = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** What a table is about, as columns of their own: every reader of CSV understands those. */
export function about(result: { title: string; caption: string; shaped_by: string[] }): Record<string, string> {
  const { title, caption, shaped_by } = result;
  return { question: title, source: caption, ...(shaped_by.length ? { shaped_by: shaped_by.join(' ') } : {}) };
}

/** Records as CSV (RFC 4180), each with what it is about; a text that a spreadsheet would run as a formula is kept a text. */
export function csv(records: Record<string, unknown>[], about: Record<string, string> = {}): string {
  records = records.map((record) => ({ ...record, ...about }));
  const columns = [...new Set(records.flatMap((record) => Object.keys(record)))];
  const lines = records.map((record) => columns.map((column) => cell(record[column])).join(','));
  return [columns.map(cell).join(','), ...lines].join('\r\n') + '\r\n';
}

/** Records with these columns only. */
export function only<Row>(rows: Row[], columns: readonly (keyof Row)[]): Record<string, unknown>[] {
  return rows.map((row) => Object.fromEntries(columns.map((column) => [column, row[column]])));
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' && /^[=+@\t\r-]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function fileName(...parts: (string | number)[]): string {
  return parts
    .map((part) => String(part).replace(/[^\w.-]+/g, '-'))
    .join('-')
    .slice(0, 80);
}
