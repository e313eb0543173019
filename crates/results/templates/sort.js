document.querySelectorAll('table.sortable').forEach(function(table){
 var body=table.tBodies[0];
 table.querySelectorAll('th').forEach(function(head,column){
  head.className='can';head.tabIndex=0;
  head.addEventListener('keydown',function(event){if(event.key==='Enter'||event.key===' '){event.preventDefault();head.click();}});
  head.addEventListener('click',function(){
   var down=head.getAttribute('aria-sort')==='ascending';
   table.querySelectorAll('th').forEach(function(other){other.removeAttribute('aria-sort');});
   head.setAttribute('aria-sort',down?'descending':'ascending');
   var key=function(row){var cell=row.cells[column],text=cell.dataset.key;return text===undefined?cell.textContent:text;};
   Array.from(body.rows).sort(function(a,b){
    var x=key(a),y=key(b);
    if(x===''||y==='')return (x==='')-(y==='');
    var order=isNaN(x)||isNaN(y)?x.localeCompare(y):x-y;
    return down?-order:order;
   }).forEach(function(row){body.appendChild(row);});
  });
 });
});
