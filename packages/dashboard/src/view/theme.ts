/** Light, dark or system theme. The choice is kept in localStorage. */
const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

const STORED = 'sluice.theme';

/** Returns undefined if the browser blocks localStorage. */
function tryStorage<T>(access: () => T): T | undefined {
  try {
    return access();
  } catch {
    return undefined;
  }
}

function storedTheme(): Theme {
  const stored = tryStorage(() => localStorage.getItem(STORED));
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

/** Charts use the theme's colours and are redrawn when it changes. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function nextTheme(): void {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  tryStorage(() => localStorage.setItem(STORED, theme));
  show();
}

export const themeLabel = (): string => `Theme: ${theme}`;

const colours = new Map<string, string>();

/**
 * Returns the current value of a colour property, for canvases: `colour('--denied')`. Reads it from
 * a probe element, because the custom property itself is unresolved text such as `light-dark(…)`.
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
