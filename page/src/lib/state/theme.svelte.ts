// Light, dark, or as the system says; the charts are drawn again when it changes.

export type Choice = 'system' | 'light' | 'dark';
const KEY = 'dpxplain.theme';

class Theme {
  choice = $state<Choice>(stored());
  #system = matchMedia('(prefers-color-scheme: dark)');
  #systemDark = $state(this.#system.matches);

  readonly dark = $derived(this.choice === 'system' ? this.#systemDark : this.choice === 'dark');

  constructor() {
    this.#system.addEventListener('change', (event) => (this.#systemDark = event.matches));
  }

  choose(choice: Choice): void {
    this.choice = choice;
    if (choice === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    try {
      if (choice === 'system') localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, choice);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }
}

function stored(): Choice {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system';
  }
}

export const theme = new Theme();
