// minified
import { load } from 'cheerio/slim';

const $ = load('<ul class="list"><li id="a">One</li><li class="x" data-n="2">Two <b>bold</b></li><li>Three &amp; more</li></ul><p>text<br>end</p>');
$('li.x').addClass('y').attr('title', 'T');
$('ul').append('<li>Four</li>');
export default [$('li').map((i, e) => $(e).text()).get(), $('li.x b').text(), $('[data-n]').data('n'), $('li:nth-child(2)').html(), $('ul').children().length, $.html('p'), $('li').filter((i) => i % 2 === 0).length, $('b').closest('ul').attr('class'), $('li').not('.x').first().next().attr('title'), $.html().length];
