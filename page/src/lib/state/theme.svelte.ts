// Light, dark, or as the system says.

export type Choice = 'system' | 'light' | 'dark';
const KEY = 'dpxplain.theme';

class Theme {
  choice = $state<Choice>(stored());

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
