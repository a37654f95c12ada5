/** Dark, light, or as the system has it. The choice is kept in this browser. */
const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

const STORED = 'sluice.theme';

/** A browser may be told to let nobody keep anything. */
function kept<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    return undefined;
  }
}

function storedTheme(): Theme {
  const stored = kept(() => localStorage.getItem(STORED));
  return THEMES.find((theme) => theme === stored) ?? 'auto';
}

let theme: Theme = 'auto';
const listeners = new Set<() => void>();

function show(): void {
  document.documentElement.dataset.theme = theme;
  colours.clear();
  for (const listener of listeners) listener();
}

export function followTheme(): void {
  theme = storedTheme();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
  show();
}

/** Charts are drawn with the colours of the theme, so they have to be told. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function nextTheme(): void {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  kept(() => localStorage.setItem(STORED, theme));
  show();
}

export const themeLabel = (): string => `Theme: ${theme}`;

const colours = new Map<string, string>();

/**
 * What a colour of the style sheets is now, for canvases: `colour('--denied')`. Only an element
 * that has it as its colour can tell, because a custom property itself is no more than text.
 */
export function colour(name: string, alpha = 1): string {
  let found = colours.get(name);
  if (found === undefined) {
    const probe = document.createElement('span');
    probe.hidden = true;
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    found = getComputedStyle(probe).color;
    probe.remove();
    colours.set(name, found);
  }
  const [red, green, blue] = found.match(/[\d.]+/g) ?? ['0', '0', '0'];
  return alpha === 1 ? found : `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}
