import { describe, expect, test } from 'vitest';
import { Html, html, shape, tag } from '../../src/report/html.ts';

describe('HTML templates', () => {
  test('inserted values are escaped as text', () => {
    expect(html`<b>${'<i>&"\''}</b>`.text).toBe('<b>&lt;i&gt;&amp;&quot;&#39;</b>');
    expect(html`${[1, 'a', html`<br>`, undefined, false, [tag('p', {}, '<')]]}`.text).toBe(
      '1a<br><p>&lt;</p>',
    );
  });

  test('inserted attribute values are escaped', () => {
    expect(tag('a', { title: '" onclick="x', class: '', id: undefined }, 'b').text).toBe(
      '<a title="&quot; onclick=&quot;x">b</a>',
    );
    expect(shape('rect', { width: '5%', height: 0, x: false }).text).toBe(
      '<rect width="5%" height="0"/>',
    );
  });

  test('inserted values have escaped invisible characters and are cut if too long', () => {
    expect(html`${'a\u0000\u202eb\u2028\ud800'}`.text).toBe('a\\u{0}\\u{202e}b\\u{2028}\\u{d800}');
    expect(html`${'x'.repeat(5000)}`.text).toHaveLength(300);
    expect(html`${new Html('<hr>')}`.text).toBe('<hr>');
  });
});
