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

/** Records as CSV (RFC 4180), each with what its numbers are of; a text that a spreadsheet would run as a formula is kept a text. */
export function csv(records: Record<string, unknown>[], shapedBy: string[] = []): string {
  if (shapedBy.length) records = records.map((record) => ({ ...record, shaped_by: shapedBy.join(' ') }));
  const columns = [...new Set(records.flatMap((record) => Object.keys(record)))];
  const lines = records.map((record) => columns.map((column) => cell(record[column])).join(','));
  return [columns.map(cell).join(','), ...lines].join('\r\n') + '\r\n';
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
