// Which parts of the page show true values at this moment. Kept in memory only: never in an address, never stored.
import { workspace } from '../lib/state/workspace.svelte';

const MARK = 'NOT PRIVATE · ';

class Showing {
  #hiders = $state.raw<(() => void)[]>([]);

  /** The first one that shows anything also shows the bar over the whole page. */
  leads(hide: () => void): boolean {
    return this.#hiders[0] === hide;
  }

  begin(hide: () => void): void {
    this.#hiders = [...this.#hiders, hide];
    if (!document.title.startsWith(MARK)) document.title = MARK + document.title;
  }

  end(hide: () => void): void {
    this.#hiders = this.#hiders.filter((hider) => hider !== hide);
    if (this.#hiders.length) return;
    document.title = document.title.replace(MARK, '');
    workspace.say('True values are hidden.');
  }

  hideAll(): void {
    for (const hide of this.#hiders) hide();
  }
}

export const showing = new Showing();
