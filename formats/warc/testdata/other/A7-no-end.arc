filedesc://x.arc 0.0.0.0 19970102030405 text/plain 69
1 0 Somebody
URL IP-address Archive-date Content-type Archive-length

http://e.example/a b 192.0.2.1 19970102030406 text/html; charset=x 56
HTTP/1.0 200 OK
Content-Type: text/html

<p>hello</p>dns:e.example 192.0.2.2 19970102030407 text/dns 43
19970102030407
e.example. 1 IN A 192.0.2.1



http://e.example/old 192.0.2.1 19970102030408 text/html 21
<p>without a head</p>