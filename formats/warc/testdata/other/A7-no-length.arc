filedesc://x.arc a.b.c.d monday one
1 0 Somebody
URL IP-address Archive-date Content-type Archive-length

http://e.example/a b 192.0.2.1 19970102030406 text/html; charset=x 56
HTTP/1.0 200 OK
Content-Type: text/html

<p>hello</p>
